// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/pdf"
)

// FuzzText reads any bytes as a document: whatever is in them, what comes out is
// bounded and valid text, or an error of the kinds that are promised, and the
// same the second time.
func FuzzText(f *testing.F) {
	for _, data := range structures() {
		f.Add(data)
	}
	for _, data := range fonts() {
		f.Add(data.file)
	}
	samples, err := filepath.Glob("testdata/*.pdf")
	if err != nil {
		f.Fatal(err)
	}
	for _, sample := range samples {
		data, err := os.ReadFile(sample)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 10_000
		d, err := pdf.Open(context.Background(), bytes.NewReader(data), int64(len(data)))
		if err != nil {
			if !errors.Is(err, pdf.ErrNotPDF) && !errors.Is(err, pdf.ErrBroken) && !errors.Is(err, pdf.ErrEncrypted) && !errors.Is(err, pdf.ErrLimit) {
				t.Fatal(err)
			}
			return
		}
		for i := range min(d.Pages(), 20) {
			p, err := d.Page(context.Background(), i, limit)
			if err != nil {
				if !errors.Is(err, pdf.ErrLimit) {
					t.Fatal(err)
				}
				return
			}
			if len(p.Text) > 3*limit || !utf8.ValidString(p.Text) {
				t.Errorf("%d bytes of text, valid: %t", len(p.Text), utf8.ValidString(p.Text))
			}
			again, err := d.Page(context.Background(), i, limit)
			if err == nil && again.Text != p.Text {
				t.Errorf("%q, and then %q", p.Text, again.Text)
			}
		}
	})
}
