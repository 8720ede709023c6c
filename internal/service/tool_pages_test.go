// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestListToolsInPages: the pages of a list are the list.
func TestListToolsInPages(t *testing.T) {
	c := serve(t).dial("")
	names := func(list *pb.ListToolsResponse) (names []string) {
		for _, tool := range list.GetTools() {
			names = append(names, tool.GetName())
		}
		return names
	}
	for _, category := range []string{"", "files"} {
		whole, err := c.ListTools(timeout(t), &pb.ListToolsRequest{Category: category})
		if err != nil || whole.GetNextPageToken() != "" {
			t.Fatal(whole, err)
		}
		for _, size := range []int32{1, 3, int32(len(whole.GetTools())), 1000} {
			var all []string
			for token, more := "", true; more; more = token != "" {
				page, err := c.ListTools(timeout(t), &pb.ListToolsRequest{Category: category, PageSize: size, PageToken: token})
				if err != nil {
					t.Fatal(err)
				}
				if len(page.GetTools()) > int(size) || len(page.GetTools()) == 0 || page.GetVersion() != whole.GetVersion() {
					t.Fatalf("a page of %d has %d tools, version %s", size, len(page.GetTools()), page.GetVersion())
				}
				all, token = append(all, names(page)...), page.GetNextPageToken()
			}
			if !slices.Equal(all, names(whole)) {
				t.Errorf("pages of %d have %v, want %v", size, all, names(whole))
			}
		}
	}
	for _, size := range []int32{-1, 1001} {
		_, err := c.ListTools(timeout(t), &pb.ListToolsRequest{PageSize: size})
		wantCode(t, err, codes.InvalidArgument, "page_size")
	}
}
