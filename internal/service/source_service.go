// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/source"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// sourceService answers SourceService.
type sourceService struct {
	pb.UnimplementedSourceServiceServer
	sources *source.Keeper // nil: there are none
	auditor *auditor
	logger  *zap.Logger
}

func (s *sourceService) ListSources(ctx context.Context, request *pb.ListSourcesRequest) (*pb.ListSourcesResponse, error) {
	if len(request.GetNames()) > 256 {
		return nil, invalid("%d names: at most 256", len(request.GetNames()))
	}
	response := new(pb.ListSourcesResponse)
	if s.sources == nil {
		return response, nil
	}
	for _, one := range s.sources.Statuses() {
		if len(request.GetNames()) == 0 || slices.Contains(request.GetNames(), one.Name) {
			response.Sources = append(response.Sources, sourceToProto(&one, principalOf(ctx)))
		}
	}
	return response, nil
}

// sourceToProto tells of a source what a caller may know.
func sourceToProto(s *source.Status, to auth.Principal) *pb.Source {
	p := &pb.Source{
		Name: s.Name, Kind: pb.ToolKind(s.Kind + 1), State: pb.SourceState(s.State), Reason: s.Reason,
		Since: timestamppb.New(s.Since), Tools: uint32(s.Tools), Restarts: uint32(s.Restarts),
	}
	if !s.Next.IsZero() {
		p.NextAttempt = timestamppb.New(s.Next)
	}
	whole := to.Tenant == "" || to.Everywhere(mayView)
	if whole && to.Roles.Has(mayView) {
		p.Location, p.Refused = s.At, s.Refused
		for _, c := range s.Changed {
			p.ChangedTools = append(p.ChangedTools, &pb.ChangedTool{
				Tool: c.Tool, Description: c.Description, ApprovedDescription: c.Before, SchemaChanged: c.Schema,
			})
		}
	}
	if whole && to.Roles.Has(auth.Operator) {
		p.SignInUrl = s.SignIn
	}
	return p
}

// find returns a source of a name.
func (s *sourceService) find(name string) (source.Source, error) {
	if s.sources == nil {
		return nil, status.Error(codes.NotFound, "this server has no sources")
	}
	found, err := s.sources.Find(name)
	if errors.Is(err, source.ErrNone) {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	return found, err
}

func (s *sourceService) ReadSourceLog(_ context.Context, request *pb.ReadSourceLogRequest) (*pb.ReadSourceLogResponse, error) {
	found, err := s.find(request.GetName())
	if err != nil {
		return nil, err
	}
	logged, ok := found.(source.Logged)
	if !ok {
		return nil, status.Errorf(codes.FailedPrecondition, "%s has no log: it is of kind %s", found.Name(), found.Kind())
	}
	return &pb.ReadSourceLogResponse{Lines: logged.Log()}, nil
}

func (s *sourceService) RetrySource(_ context.Context, request *pb.RetrySourceRequest) (*pb.RetrySourceResponse, error) {
	if _, err := s.find(request.GetName()); err != nil {
		return nil, err
	}
	return &pb.RetrySourceResponse{}, s.sources.Retry(request.GetName())
}

func (s *sourceService) ApproveTools(ctx context.Context, request *pb.ApproveToolsRequest) (*pb.ApproveToolsResponse, error) {
	found, err := s.find(request.GetName())
	if err != nil {
		return nil, err
	}
	approver, ok := found.(source.Approver)
	if !ok {
		return nil, status.Errorf(codes.FailedPrecondition, "%s withholds no tools: it is of kind %s", found.Name(), found.Kind())
	}
	approved, err := approver.Approve(request.GetTools())
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	if len(approved) > 0 {
		s.auditor.approvedTools(ctx, found.Name(), approved)
		s.logger.Info("changed tools were approved", zap.String("source", found.Name()), zap.Strings("tools", approved), zap.String("by", principalOf(ctx).Name))
	}
	return &pb.ApproveToolsResponse{Approved: approved}, nil
}

func (s *sourceService) CompleteSignIn(ctx context.Context, request *pb.CompleteSignInRequest) (*pb.CompleteSignInResponse, error) {
	found, err := s.find(request.GetName())
	if err != nil {
		return nil, err
	}
	signs, ok := found.(source.SignsIn)
	if !ok {
		return nil, status.Errorf(codes.FailedPrecondition, "nobody signs in for %s", found.Name())
	}
	if err := signs.SignIn(ctx, request.GetRedirectedUrl()); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &pb.CompleteSignInResponse{}, nil
}

// approvedTools records who approved tools that changed.
func (a *auditor) approvedTools(ctx context.Context, name string, tools []string) {
	a.log.Append(audit.Record{
		Step: audit.ToolsApproved, Principal: principalOf(ctx).Name, By: principalOf(ctx).Name, From: peerOf(ctx), Tool: name,
		Count: uint64(len(tools)), Reason: strings.Join(tools[:min(len(tools), 50)], " "),
	})
}

// SettleSources waits until each source of tools has offered some or failed once.
func (s *Server) SettleSources(ctx context.Context) error {
	if s.config.Sources == nil {
		return nil
	}
	return s.config.Sources.Settle(ctx)
}

// sourceMeter has Prometheus see how sources are.
type sourceMeter struct{ keeper *source.Keeper }

var (
	sourceUp       = prometheus.NewDesc("toolserver_source_up", "Whether a source of tools is available.", []string{"source", "kind"}, nil)
	sourceTools    = prometheus.NewDesc("toolserver_source_tools", "How many tools a source offers.", []string{"source", "kind"}, nil)
	sourceRestarts = prometheus.NewDesc("toolserver_source_restarts_total", "How often a source was connected to again.", []string{"source", "kind"}, nil)
)

func (m sourceMeter) Describe(to chan<- *prometheus.Desc) {
	to <- sourceUp
	to <- sourceTools
	to <- sourceRestarts
}

func (m sourceMeter) Collect(to chan<- prometheus.Metric) {
	for _, s := range m.keeper.Statuses() {
		up := 0.0
		if s.State == source.Available {
			up = 1
		}
		to <- prometheus.MustNewConstMetric(sourceUp, prometheus.GaugeValue, up, s.Name, s.Kind.String())
		to <- prometheus.MustNewConstMetric(sourceTools, prometheus.GaugeValue, float64(s.Tools), s.Name, s.Kind.String())
		to <- prometheus.MustNewConstMetric(sourceRestarts, prometheus.CounterValue, float64(s.Restarts), s.Name, s.Kind.String())
	}
}
