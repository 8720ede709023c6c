// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"slices"
	"testing"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestRightsAreTold: who is asked, and who watches, sees what a command may touch.
func TestRightsAreTold(t *testing.T) {
	c := serve(t, withPolicy(t, "")).dial("")
	response, err := c.CheckCall(timeout(t), &pb.CheckCallRequest{Command: "echo x > src/a; cat /srv/data/x/y"})
	if err != nil {
		t.Fatal(err)
	}
	if got := response.GetVerdict().GetRights(); got.GetConfinement() != pb.Confinement_CONFINEMENT_NAMED || got.GetNetwork() != pb.Network_NETWORK_NONE ||
		!slices.Equal(got.GetWrite(), []string{"src"}) || !slices.Equal(got.GetRead(), []string{"/srv/data/x/y"}) {
		t.Errorf("%v", got)
	}
	response, err = c.CheckCall(timeout(t), &pb.CheckCallRequest{Command: "echo x > .git/config"})
	if err != nil || response.GetVerdict().GetRights() != nil {
		t.Errorf("a denied call has rights: %v, %v", response.GetVerdict(), err)
	}
	response, err = c.CheckCall(timeout(t), &pb.CheckCallRequest{Tool: "Read", InputJson: []byte(`{"path":"a.txt"}`)})
	if err != nil || response.GetVerdict().GetRights() != nil {
		t.Errorf("a call without commands has rights: %v, %v", response.GetVerdict(), err)
	}
}
