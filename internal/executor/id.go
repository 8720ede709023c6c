// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"

	"github.com/toolserver/toolserver/internal/auth"
)

// ids are the names of executions: their numbers and whose they are, encrypted with a key
// that no other server has. So nobody guesses one, and who has some does not learn from
// them how many others there were. A server that keeps records keeps the key, too: it
// knows the ids that it gave before it was started again.
type ids struct{ block cipher.Block }

// An idKey is what names are encrypted with.
type idKey [16]byte

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func newIDKey() (key idKey) {
	rand.Read(key[:]) // never fails
	return key
}

func newIDs(key idKey) ids {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has a size that AES takes
	}
	return ids{block}
}

// ownerTag stands for an owner in the names of what it owns.
type ownerTag [4]byte

func tagOf(owner auth.Owner) ownerTag {
	sum := sha256.Sum256([]byte(owner))
	return ownerTag(sum[:4])
}

// of returns the id of a number of an owner.
func (i ids) of(number uint64, owner auth.Owner) string { return i.name(number, tagOf(owner)) }

func (i ids) name(number uint64, tag ownerTag) string {
	var block [aes.BlockSize]byte
	binary.BigEndian.PutUint64(block[:], number)
	copy(block[8:], tag[:])
	i.block.Encrypt(block[:], block[:])
	return idEncoding.EncodeToString(block[:])
}

// number returns the number of an id, and what stands for its owner. It reports false for
// what no id is that was made with this key.
func (i ids) number(id string) (number uint64, tag ownerTag, ok bool) {
	var plain, sealed [aes.BlockSize]byte
	if len(id) != idEncoding.EncodedLen(len(sealed)) {
		return 0, tag, false
	}
	if _, err := idEncoding.Decode(sealed[:], []byte(id)); err != nil {
		return 0, tag, false
	}
	i.block.Decrypt(plain[:], sealed[:])
	number, tag = binary.BigEndian.Uint64(plain[:]), ownerTag(plain[8:12])
	return number, tag, i.name(number, tag) == id // and not another text that is read as it
}
