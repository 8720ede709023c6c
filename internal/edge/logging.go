// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge

import "github.com/modelcontextprotocol/go-sdk/mcp"

//lint:file-ignore SA1019 Logging is to go with a later version of the protocol; those that are spoken here have it.

// capabilities are what the server can do, to clients.
func capabilities() *mcp.ServerCapabilities {
	return &mcp.ServerCapabilities{
		Tools: &mcp.ToolCapabilities{ListChanged: true}, Resources: &mcp.ResourceCapabilities{}, Logging: &mcp.LoggingCapabilities{},
	}
}

// log sends a text for people to the log of the client, if it has asked for such.
func (c *call) log(text string) {
	c.peer.Log(c.notifying(), &mcp.LoggingMessageParams{Level: "notice", Logger: "toolserver", Data: text})
}
