// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/model"
)

// TestEmbeddings: an endpoint in the format of OpenAI makes vectors, in the order of the
// texts whatever the order of the answer, and is told wrong where it does not.
func TestEmbeddings(t *testing.T) {
	answer := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Model string
			Input []string
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Model != "embed-1" || len(asked.Input) != 2 || r.URL.Path != "/v1/embeddings" {
			t.Errorf("%s: %+v, %v", r.URL, asked, err)
		}
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	table, err := model.New(model.Config{{Name: "e", Format: "openai", URL: server.URL + "/v1", Model: "embed-1"}}, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	endpoint, err := table.Endpoint("e")
	if err != nil {
		t.Fatal(err)
	}
	answer = `{"object":"list","data":[{"object":"embedding","index":1,"embedding":[0,1]},{"object":"embedding","index":0,"embedding":[1,0]}],"model":"embed-1","usage":{"prompt_tokens":2,"total_tokens":2}}`
	vectors, err := endpoint.Embed(t.Context(), []string{"a", "b"})
	if err != nil || fmt.Sprint(vectors) != "[[1 0] [0 1]]" {
		t.Errorf("%v, %v", vectors, err)
	}
	for _, answer = range []string{`no`, `{"data":[]}`, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`, `{"data":[{"index":7,"embedding":[1]}]}`} {
		if _, err := endpoint.Embed(t.Context(), []string{"a", "b"}); err == nil || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("%s: %v", answer, err)
		}
	}
}
