// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"go.uber.org/zap"
)

// Options choose an engine. With a URL it is a cluster; with a directory, one in this
// process that keeps its data there; with neither, one in this process and in memory.
type Options struct {
	// URL names servers of a cluster: nats://host:4222, tls://host:4222, with commas
	// between several.
	URL string

	// Credentials is a file with the JWT and the key of a user of the cluster; CA, Cert
	// and CertKey are PEM files for TLS. All are optional.
	Credentials, CA, Cert, CertKey string

	// Replicas is on how many servers of a cluster data is kept; 0 is 3.
	Replicas int

	// Prefix begins all names in the engine; "" is "ts". Installations that share an
	// account of a cluster have different ones.
	Prefix string

	// Dir is where an engine in this process keeps its data. It is made if need be, and
	// belongs to one process at a time.
	Dir string

	// MaxBytes bounds what an engine in this process keeps, all spaces together; 0 is
	// 4 GiB.
	MaxBytes int64

	// Log is told what the engine has to say; nil is nobody.
	Log *zap.Logger
}
