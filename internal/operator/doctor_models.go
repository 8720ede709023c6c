// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/model"
)

// probeTime is how long an endpoint has to answer.
const probeTime = 10 * time.Second

// tryModels returns what is wrong with the endpoints of models: those that cannot be
// reached, and those that do not take their key. No model is asked anything.
func tryModels(ctx context.Context, c model.Config) []string {
	table, err := model.New(c, model.Options{})
	if err != nil {
		return []string{"models: " + err.Error()}
	}
	defer table.Close()
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	problems := make([]error, len(c))
	var tries sync.WaitGroup
	for i, name := range table.Names() {
		tries.Go(func() {
			e, err := table.Endpoint(name)
			if err == nil {
				err = e.Probe(ctx)
			}
			problems[i] = err
		})
	}
	tries.Wait()
	var wrong []string
	for _, err := range problems {
		if err != nil {
			wrong = append(wrong, "models: "+err.Error())
		}
	}
	return wrong
}
