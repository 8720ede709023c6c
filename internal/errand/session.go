// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package errand

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Settings are those of a session, as they were: a session that is made of them later has
// these or less.
type Settings struct {
	Workspace string     `json:"workspace,omitempty"` // empty: one of its own
	Level     pb.Level   `json:"level"`
	Mode      pb.Mode    `json:"mode"`
	Network   pb.Network `json:"network,omitempty"`
	Include   []string   `json:"include,omitempty"`
	Exclude   []string   `json:"exclude,omitempty"`

	Labels map[string]string `json:"labels,omitempty"` // rules of the policy may be about them
	Below  string            `json:"-"`                // the session of whoever asked for its agent; empty: none

	made time.Time
}

// SettingsOf returns the settings of a session.
func (d *Door) SettingsOf(ctx context.Context, who Who, session string) (Settings, error) {
	conn, err := d.open(who)
	if err != nil {
		return Settings{}, err
	}
	defer conn.Close()
	response, err := pb.NewSessionServiceClient(conn).GetSession(ctx, &pb.GetSessionRequest{SessionId: session})
	if err != nil {
		return Settings{}, failure(ctx, err)
	}
	s := response.GetSession()
	return Settings{
		Workspace: s.GetWorkspace(), Level: s.GetLevel(), Mode: s.GetMode(), Network: s.GetNetwork(),
		Include: s.GetTools().GetInclude(), Exclude: s.GetTools().GetExclude(),
		Labels: s.GetLabels(), Below: s.GetParentSessionId(), made: s.GetCreateTime().AsTime(),
	}, nil
}

// Made returns when a session was made, which tells it from others that had its id. The session
// is known as used.
func (d *Door) Made(ctx context.Context, who Who, session string) (time.Time, error) {
	s, err := d.SettingsOf(ctx, who, session)
	return s.made, err
}

// idle is how long a session of an errand outlives its last use.
const idle = time.Hour

// Open makes a session, unless it is there already.
func (d *Door) Open(ctx context.Context, who Who, id string, s Settings) error {
	conn, err := d.open(who)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = pb.NewSessionServiceClient(conn).CreateSession(ctx, &pb.CreateSessionRequest{
		SessionId: id, Workspace: s.Workspace, Level: s.Level, Mode: s.Mode, Network: s.Network,
		Tools: &pb.ToolSelection{Include: s.Include, Exclude: s.Exclude}, IdleTtl: durationpb.New(idle), Labels: s.Labels,
	})
	if status.Code(err) == codes.AlreadyExists {
		return nil
	}
	if err != nil {
		return failure(ctx, err)
	}
	return nil
}

// ShutMethod is the full name of the method that [Door.Shut] calls.
const ShutMethod = pb.SessionService_CloseSession_FullMethodName

// Shut closes a session. One that is gone is no error.
func (d *Door) Shut(ctx context.Context, who Who, id string) {
	conn, err := d.open(who)
	if err != nil {
		return
	}
	defer conn.Close()
	pb.NewSessionServiceClient(conn).CloseSession(ctx, &pb.CloseSessionRequest{SessionId: id})
}
