// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"

	"github.com/toolserver/toolserver/internal/tools"
)

// A Page is a page of the web as text, for tools that keep it.
type Page struct{ URL, Title, Text string }

// Document returns the text of a PDF document, page by page.
func (f *Family) Document(ctx context.Context, body []byte) (string, error) {
	d, err := f.pdfText(ctx, body)
	return d.text, err
}

// Read returns the main content of a page, as web_fetch shows it. The call told that it
// [Reaches] the address.
func (f *Family) Read(ctx context.Context, env tools.Env, address string) (Page, error) {
	visit := f.web.Visit(reachedBy(Reaches(address)).judge(env))
	defer visit.Close()
	page, answer, _, err := f.get(ctx, env, visit, fetchInput{URL: address}, address)
	if err != nil {
		return Page{}, err
	}
	if answer != nil && answer.Next != nil {
		return Page{}, tools.Failf("redirected", "%s redirects to %s, and that was not followed: %s. Name that address, if it is what you want.", answer.URL, answer.Next, answer.Stays)
	}
	if err := statusError(page); err != nil {
		return Page{}, err
	}
	if page.cut {
		return Page{}, tools.Failf("too_large", "%s is larger than may be fetched: name a smaller page.", page.url)
	}
	document, images, err := f.convertBody(ctx, page, modeMain)
	if err == nil && (len(images) > 0 || document.text == "") {
		err = tools.Failf("not_text", "%s has no text.", page.url)
	}
	return Page{page.url.String(), document.title, document.text}, err
}
