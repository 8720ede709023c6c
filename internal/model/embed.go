// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

const maxEmbeddings = 64 << 20 // bytes of an answer with vectors

// Embed returns a vector for each text, as endpoints of the format openai have them. It is
// tried as often as a request to the model.
func (e *Endpoint) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	body, err := json.Marshal(map[string]any{"model": e.spec.Model, "input": texts, "encoding_format": "float"})
	if err != nil {
		return nil, err
	}
	var vectors [][]float32
	err = e.try(ctx, func(ctx context.Context) (_ *reading, err error) {
		vectors, err = e.embedOnce(ctx, body, len(texts))
		return new(reading), err
	})
	return vectors, err
}

func (e *Endpoint) embedOnce(ctx context.Context, body []byte, count int) ([][]float32, error) {
	response, err := e.send(ctx, http.MethodPost, "/embeddings", body)
	if err != nil {
		return nil, because(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, e.refusal(response)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxEmbeddings+1))
	switch {
	case err != nil:
		return nil, because(ctx, errors.Join(errCut, err))
	case len(text) > maxEmbeddings:
		return nil, errTooMuch
	}
	var answer struct {
		Data []struct {
			Index     int
			Embedding []float32
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, malformedError("what came is no list of embeddings")
	}
	vectors := make([][]float32, count)
	for _, one := range answer.Data {
		if one.Index < 0 || one.Index >= count || vectors[one.Index] != nil || len(one.Embedding) == 0 || len(one.Embedding) > 8192 {
			return nil, malformedError("its embeddings are not one for each text")
		}
		vectors[one.Index] = one.Embedding
	}
	if len(answer.Data) != count {
		return nil, malformedError("its embeddings are not one for each text")
	}
	return vectors, nil
}
