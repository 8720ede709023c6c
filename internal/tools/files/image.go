// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"context"
	"fmt"
	"image"
	_ "image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"slices"

	_ "golang.org/x/image/bmp"
	"golang.org/x/image/draw"
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

const (
	maxDecoding   = 2          // images and PDFs decoded at once: an image takes up to 4 bytes a pixel
	maxImageFile  = 20 << 20   // bytes of a file
	maxPixels     = 25_000_000 // of an image that is decoded
	maxSide       = 1568       // pixels of the longer side that is shown
	maxImageShown = 3 << 20    // bytes of an image that is shown as it is
)

var imageKinds = []string{"a PNG image", "a JPEG image", "a GIF image", "a WebP image", "a BMP image", "a TIFF image"}

func isImage(kind string) bool { return slices.Contains(imageKinds, kind) }

// shownAsIs are the formats that models read.
var shownAsIs = []string{"png", "jpeg", "gif", "webp"}

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

// image shows an image, scaled down where it is large. Its size in pixels is
// known before it is decoded: a small file can be an image that fills memory.
func (r reader) image(ctx context.Context, file *workspace.Opened, name string, size int64) ([]tools.Content, any, error) {
	if size > maxImageFile {
		return nil, nil, tools.Failf("image_too_large", "%s has %d bytes: images of up to %d can be shown.", name, size, maxImageFile)
	}
	data, err := io.ReadAll(stoppable(ctx, io.NewSectionReader(file, 0, maxImageFile+1)))
	if err != nil {
		return nil, nil, err
	}
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, nil, tools.Failf("bad_image", "%s is no image that can be shown: %v.", name, err)
	}
	d := imageDetails{Path: name, Format: format, Width: config.Width, Height: config.Height, Size: size}
	if config.Width <= 0 || config.Height <= 0 || int64(config.Width)*int64(config.Height) > maxPixels {
		return nil, nil, tools.Failf("image_too_large", "%s has %d x %d pixels: images of up to %d pixels can be shown.", name, config.Width, config.Height, maxPixels)
	}
	d.ShownWidth, d.ShownHeight = scaled(config.Width, config.Height)
	select {
	case r.decoding <- struct{}{}:
		defer func() { <-r.decoding }()
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	if d.ShownWidth == d.Width && len(data) <= maxImageShown && slices.Contains(shownAsIs, format) {
		if isCut(stoppable(ctx, bytes.NewReader(data))) {
			return nil, nil, tools.Failf("bad_image", "%s is no image that can be shown: its end is missing. Was all of it written?", name)
		}
		return []tools.Content{tools.Image{MediaType: "image/" + format, Data: data}, d.note()}, d, nil
	}
	small, mediaType, err := scaleDown(stoppable(ctx, bytes.NewReader(data)), d.ShownWidth, d.ShownHeight, format)
	if err != nil {
		return nil, nil, tools.Failf("bad_image", "%s is no image that can be shown: %v.", name, err)
	}
	return []tools.Content{tools.Image{MediaType: mediaType, Data: small}, d.note()}, d, nil
}

func (d imageDetails) note() tools.Text {
	text := fmt.Sprintf("(%s: %s image of %d x %d pixels", plain(d.Path), d.Format, d.Width, d.Height)
	if d.ShownWidth != d.Width {
		text += fmt.Sprintf(", shown as %d x %d", d.ShownWidth, d.ShownHeight)
	}
	return tools.Text(visible(text + ")\n"))
}

// scaled returns the size an image is shown in.
func scaled(width, height int) (int, int) {
	longer := max(width, height)
	if longer <= maxSide {
		return width, height
	}
	return max(1, width*maxSide/longer), max(1, height*maxSide/longer)
}

// isCut reports whether an image ends before all of its pixels have come. Who is
// sent one may refuse everything that was sent with it. Other faults are left to
// who shows it, who may know more of the format.
func isCut(in io.Reader) (cut bool) {
	defer func() {
		if recover() != nil { // a decoder that met something unforeseen
			cut = false
		}
	}()
	ended := false
	_, _, err := image.Decode(readerFunc(func(p []byte) (int, error) {
		n, err := in.Read(p)
		ended = ended || err == io.EOF
		return n, err
	}))
	return err != nil && ended // it wanted more than there is
}

// scaleDown decodes an image and encodes it in another size: as JPEG where it
// was, as PNG otherwise, so that what is transparent stays so.
func scaleDown(in io.Reader, width, height int, format string) (data []byte, mediaType string, err error) {
	defer func() {
		if p := recover(); p != nil { // a decoder that met something unforeseen
			err = fmt.Errorf("it cannot be decoded: %v", p)
		}
	}()
	source, _, err := image.Decode(in)
	if err != nil {
		return nil, "", err
	}
	target := shrink(source, width, height)
	var out bytes.Buffer
	if format == "jpeg" {
		err = jpeg.Encode(&out, target, &jpeg.Options{Quality: 85})
		return out.Bytes(), "image/jpeg", err
	}
	err = png.Encode(&out, target)
	return out.Bytes(), "image/png", err
}

// shrink returns an image in a size that is not larger. It is halved, each pixel
// the mean of four, until less than a half is left to do: so thin lines and small
// letters pale but stay. The library's other scalers keep more in memory than the
// image itself has.
func shrink(source image.Image, width, height int) *image.RGBA {
	for {
		from := source.Bounds()
		next := image.NewRGBA(image.Rect(0, 0, max(from.Dx()/2, width), max(from.Dy()/2, height)))
		draw.ApproxBiLinear.Scale(next, next.Bounds(), source, from, draw.Src, nil)
		if next.Rect.Max == image.Pt(width, height) {
			return next
		}
		source = next
	}
}
