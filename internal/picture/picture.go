// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package picture makes pictures ready for models: in a size and a format that they take.
package picture

import (
	"bytes"
	"context"
	"errors"
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
)

const (
	MaxFile   = 20 << 20   // bytes of a file
	MaxPixels = 25_000_000 // of a picture that is decoded
	MaxSide   = 1568       // pixels of the longer side that is shown

	maxShown = 3 << 20 // bytes of a picture that is shown as it is
)

// ErrTooLarge is about a picture with more than [MaxPixels].
var ErrTooLarge = errors.New("it has too many pixels")

// shownAsIs are the formats that models read.
var shownAsIs = []string{"png", "jpeg", "gif", "webp"}

// A Picture is one whose size is known, and which is not decoded yet.
type Picture struct {
	Format                  string
	Width, Height           int
	ShownWidth, ShownHeight int

	data []byte
}

// Measure reads the size of a picture in pixels. It is known before anything is decoded: a
// small file can be a picture that fills memory.
func Measure(data []byte) (*Picture, error) {
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	p := &Picture{Format: format, Width: config.Width, Height: config.Height, data: data}
	if p.Width <= 0 || p.Height <= 0 || int64(p.Width)*int64(p.Height) > MaxPixels {
		return p, ErrTooLarge
	}
	p.ShownWidth, p.ShownHeight = scaled(p.Width, p.Height)
	return p, nil
}

// Encode returns the picture as it is shown, scaled down where it is large. Decoding takes
// up to 4 bytes a pixel: let few do so at once.
func (p *Picture) Encode(ctx context.Context) (data []byte, mediaType string, err error) {
	if p.ShownWidth == p.Width && len(p.data) <= maxShown && slices.Contains(shownAsIs, p.Format) {
		if isCut(stoppable(ctx, p.data)) {
			return nil, "", errors.New("its end is missing, so not all of it was written")
		}
		return p.data, "image/" + p.Format, nil
	}
	return scaleDown(stoppable(ctx, p.data), p.ShownWidth, p.ShownHeight, p.Format)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// stoppable returns a reader of data that fails when ctx is done.
func stoppable(ctx context.Context, data []byte) io.Reader {
	from := bytes.NewReader(data)
	return readerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return from.Read(p)
	})
}

// scaled returns the size an image is shown in.
func scaled(width, height int) (int, int) {
	longer := max(width, height)
	if longer <= MaxSide {
		return width, height
	}
	return max(1, width*MaxSide/longer), max(1, height*MaxSide/longer)
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
