// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/toolserver/toolserver/internal/picture"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// maxDecoding is how many images and PDFs are decoded at once.
const maxDecoding = 2

var imageKinds = []string{"a PNG image", "a JPEG image", "a GIF image", "a WebP image", "a BMP image", "a TIFF image"}

func isImage(kind string) bool { return slices.Contains(imageKinds, kind) }

// imageDetails is what an agent runtime may want to know about an image.
type imageDetails struct {
	Path        string `json:"path"`
	Format      string `json:"format"`
	Width       int    `json:"width"`
	Height      int    `json:"height"`
	ShownWidth  int    `json:"shown_width"`
	ShownHeight int    `json:"shown_height"`
	Size        int64  `json:"size"`
}

// image shows an image, scaled down where it is large.
func (r reader) image(ctx context.Context, file *workspace.Opened, name string, size int64) ([]tools.Content, any, error) {
	if size > picture.MaxFile {
		return nil, nil, tools.Failf("image_too_large", "%s has %d bytes: images of up to %d can be shown.", name, size, picture.MaxFile)
	}
	data, err := io.ReadAll(stoppable(ctx, io.NewSectionReader(file, 0, picture.MaxFile+1)))
	if err != nil {
		return nil, nil, err
	}
	p, err := picture.Measure(data)
	switch {
	case errors.Is(err, picture.ErrTooLarge):
		return nil, nil, tools.Failf("image_too_large", "%s has %d x %d pixels: images of up to %d pixels can be shown.", name, p.Width, p.Height, picture.MaxPixels)
	case err != nil:
		return nil, nil, badImage(name, err)
	}
	d := imageDetails{Path: name, Format: p.Format, Width: p.Width, Height: p.Height, ShownWidth: p.ShownWidth, ShownHeight: p.ShownHeight, Size: size}
	select {
	case r.decoding <- struct{}{}:
		defer func() { <-r.decoding }()
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	shown, mediaType, err := p.Encode(ctx)
	if err != nil {
		return nil, nil, badImage(name, err)
	}
	return []tools.Content{tools.Image{MediaType: mediaType, Data: shown}, d.note()}, d, nil
}

func badImage(name string, err error) error {
	return tools.Failf("bad_image", "%s is no image that can be shown: %v.", name, err)
}

func (d imageDetails) note() tools.Text {
	text := fmt.Sprintf("(%s: %s image of %d x %d pixels", plain(d.Path), d.Format, d.Width, d.Height)
	if d.ShownWidth != d.Width {
		text += fmt.Sprintf(", shown as %d x %d", d.ShownWidth, d.ShownHeight)
	}
	return tools.Text(visible(text + ")\n"))
}
