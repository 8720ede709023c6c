// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5"
	"crypto/rc4"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"fmt"
	"io"
)

// crypt decrypts the streams of a document that opens without a password.
// Strings are not decrypted: none that text depends on is outside of streams.
type crypt struct {
	key    []byte
	method string // "V2", "AESV2", "AESV3" or "None"
}

// padding is what passwords are filled up with; an empty one is all of it.
const padding = "\x28\xBF\x4E\x5E\x4E\x75\x8A\x41\x64\x00\x4E\x56\xFF\xFA\x01\x08\x2E\x2E\x00\xB6\xD0\x68\x3E\x80\x2F\x0C\xA9\xFE\x64\x53\x69\x7A"

// unlock finds the key of a document that is encrypted with an empty password.
func (d *Document) unlock() error {
	encryption := d.dict(d.trailer["Encrypt"])
	if d.failure != nil {
		return d.failure
	}
	if d.trailer["Encrypt"] == nil {
		return nil
	}
	if handler, _ := d.resolve(encryption["Filter"]).(name); handler != "Standard" {
		return fmt.Errorf("%w, in a way that is not known here (%q)", ErrEncrypted, string(handler))
	}
	number := func(key name, otherwise int) int {
		if n, ok := integer(d.resolve(encryption[key])); ok {
			return n
		}
		return otherwise
	}
	c := &crypt{method: "V2"}
	version, revision, bits := number("V", 0), number("R", 0), number("Length", 40)
	switch version {
	case 1:
		bits = 40
	case 2, 3:
	case 4, 5:
		bits = 128
		filter, _ := d.resolve(encryption["StmF"]).(name)
		method, _ := d.resolve(d.dict(d.dict(encryption["CF"])[filter])["CFM"]).(name)
		if c.method = string(method); method == "" {
			c.method = "None"
		}
	default:
		return fmt.Errorf("%w, in a way that is not known here (version %d)", ErrEncrypted, version)
	}
	if bits < 40 || bits > 128 || bits%8 != 0 {
		bits = 128
	}
	owner, _ := d.resolve(encryption["O"]).(text)
	user, _ := d.resolve(encryption["U"]).(text)
	var first text
	if ids, ok := d.resolve(d.trailer["ID"]).(array); ok && len(ids) > 0 {
		first, _ = d.resolve(ids[0]).(text)
	}
	var ok bool
	if revision >= 5 {
		sealed, _ := d.resolve(encryption["UE"]).(text)
		c.key, ok = openAES256([]byte(user), []byte(sealed), revision)
	} else {
		c.key = key128([]byte(owner), int32(uint32(int64(decimal(d.resolve(encryption["P"]))))), []byte(first), revision, bits/8,
			d.resolve(encryption["EncryptMetadata"]) != false)
		ok = fits(c.key, []byte(user), []byte(first), revision)
	}
	if !ok {
		return fmt.Errorf("%w, and a password is needed to open it", ErrEncrypted)
	}
	d.crypt = c
	return nil
}

// key128 makes the key of the revisions up to 4.
func key128(owner []byte, permissions int32, id []byte, revision, size int, metadata bool) []byte {
	h := md5.New()
	h.Write([]byte(padding))
	h.Write(owner[:min(len(owner), 32)])
	h.Write(binary.LittleEndian.AppendUint32(nil, uint32(permissions)))
	h.Write(id)
	if revision >= 4 && !metadata {
		h.Write([]byte{0xff, 0xff, 0xff, 0xff})
	}
	key := h.Sum(nil)
	if revision >= 3 {
		for range 50 {
			sum := md5.Sum(key[:size])
			key = sum[:]
		}
	}
	return key[:size]
}

// fits tells whether a key is the right one.
func fits(key, user, id []byte, revision int) bool {
	if revision < 3 {
		return bytes.Equal(rc4Of(key, []byte(padding)), user)
	}
	sum := md5.Sum(append([]byte(padding), id...))
	check := rc4Of(key, sum[:])
	for i := byte(1); i < 20; i++ {
		mixed := bytes.Clone(key)
		for j := range mixed {
			mixed[j] ^= i
		}
		check = rc4Of(mixed, check)
	}
	return len(user) >= 16 && bytes.Equal(check, user[:16])
}

func rc4Of(key, data []byte) []byte {
	out := make([]byte, len(data))
	if c, err := rc4.NewCipher(key); err == nil {
		c.XORKeyStream(out, data)
	}
	return out
}

// openAES256 opens the key of revisions 5 and 6.
func openAES256(user, sealed []byte, revision int) ([]byte, bool) {
	if len(user) < 48 || len(sealed) < 32 {
		return nil, false
	}
	check, forKey := user[32:40], user[40:48]
	if !bytes.Equal(hash256(check, revision), user[:32]) {
		return nil, false
	}
	block, err := aes.NewCipher(hash256(forKey, revision))
	if err != nil {
		return nil, false
	}
	key := make([]byte, 32)
	cipher.NewCBCDecrypter(block, make([]byte, aes.BlockSize)).CryptBlocks(key, sealed[:32])
	return key, true
}

// hash256 is the hash of an empty password with a salt.
func hash256(salt []byte, revision int) []byte {
	sum := sha256.Sum256(salt)
	k := sum[:]
	if revision == 5 {
		return k
	}
	for round := 0; ; round++ {
		data := bytes.Repeat(k, 64)
		block, err := aes.NewCipher(k[:16])
		if err != nil {
			return nil
		}
		cipher.NewCBCEncrypter(block, k[16:32]).CryptBlocks(data, data)
		rest := 0
		for _, c := range data[:16] {
			rest += int(c)
		}
		switch rest % 3 {
		case 0:
			sum := sha256.Sum256(data)
			k = sum[:]
		case 1:
			sum := sha512.Sum384(data)
			k = sum[:]
		default:
			sum := sha512.Sum512(data)
			k = sum[:]
		}
		if round >= 63 && int(data[len(data)-1]) <= round-31 {
			return k[:32]
		}
	}
}

// decrypt returns the data of a stream as it was before it was encrypted.
func (c *crypt) decrypt(data io.Reader, s stream) (io.Reader, error) {
	if c.method == "None" || c.method == "Identity" {
		return data, nil
	}
	key := c.key
	if c.method != "AESV3" {
		salted := append(bytes.Clone(key), byte(s.ref.num), byte(s.ref.num>>8), byte(s.ref.num>>16), byte(s.ref.gen), byte(s.ref.gen>>8))
		if c.method == "AESV2" {
			salted = append(salted, "sAlT"...)
		}
		sum := md5.Sum(salted)
		key = sum[:min(len(key)+5, 16)]
	}
	if c.method == "V2" {
		stream, err := rc4.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrEncrypted, err)
		}
		return cipher.StreamReader{S: stream, R: data}, nil
	}
	if c.method != "AESV2" && c.method != "AESV3" {
		return nil, fmt.Errorf("%w, in a way that is not known here (%q)", ErrEncrypted, c.method)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEncrypted, err)
	}
	return &blockReader{in: data, block: block}, nil
}

// blockReader decrypts CBC whose first block is where it starts from. What
// fills the last block is taken off.
type blockReader struct {
	in    io.Reader
	block cipher.Block
	mode  cipher.BlockMode
	buf   [4 << 10]byte
	last  [aes.BlockSize]byte // kept back, for it may be the end
	held  bool
	out   []byte
	err   error
}

func (b *blockReader) Read(p []byte) (int, error) {
	for len(b.out) == 0 && b.err == nil {
		b.fill()
	}
	if len(b.out) == 0 {
		return 0, b.err
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

func (b *blockReader) fill() {
	if b.mode == nil {
		start := b.buf[:aes.BlockSize]
		if _, b.err = io.ReadFull(b.in, start); b.err != nil {
			b.err = io.EOF
			return
		}
		b.mode = cipher.NewCBCDecrypter(b.block, start)
	}
	// The block that was kept back goes first.
	start := 0
	if b.held {
		start = copy(b.buf[:], b.last[:])
	}
	n, err := io.ReadFull(b.in, b.buf[start:])
	n -= n % aes.BlockSize
	b.mode.CryptBlocks(b.buf[start:start+n], b.buf[start:start+n])
	all := b.buf[:start+n]
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		b.err = io.EOF
		if len(all) > 0 {
			if fill := int(all[len(all)-1]); fill >= 1 && fill <= aes.BlockSize {
				all = all[:len(all)-fill]
			}
		}
		b.out = all
		return
	}
	b.err = err
	b.held = len(all) > 0
	if b.held {
		copy(b.last[:], all[len(all)-aes.BlockSize:])
		b.out = all[:len(all)-aes.BlockSize]
	}
}
