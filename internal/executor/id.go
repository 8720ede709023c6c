// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
)

// ids are the names of executions: their numbers, encrypted with a key that no other
// executor has. So nobody guesses one, and who has some does not learn from them how
// many others there were.
type ids struct{ block cipher.Block }

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func newIDs() ids {
	var key [16]byte
	rand.Read(key[:]) // never fails
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has a size that AES takes
	}
	return ids{block}
}

// of returns the id of a number.
func (i ids) of(number uint64) string {
	var plain, sealed [aes.BlockSize]byte
	binary.BigEndian.PutUint64(plain[:], number)
	i.block.Encrypt(sealed[:], plain[:])
	return idEncoding.EncodeToString(sealed[:])
}

// number returns the number of an id. It reports false for what no id of this executor
// is.
func (i ids) number(id string) (uint64, bool) {
	var plain, sealed [aes.BlockSize]byte
	if len(id) != idEncoding.EncodedLen(len(sealed)) {
		return 0, false
	}
	if _, err := idEncoding.Decode(sealed[:], []byte(id)); err != nil {
		return 0, false
	}
	i.block.Decrypt(plain[:], sealed[:])
	number := binary.BigEndian.Uint64(plain[:])
	return number, i.of(number) == id // and not another text that is read as it
}
