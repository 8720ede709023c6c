// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/auth"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Agents are those whom tasks can be given.
type Agents interface {
	// List returns the agents of the operator, and those that runtimes serve for the owners
	// that one stands for, by name.
	List(of auth.Owner) []*pb.Agent

	// Serves reports whether runtimes may serve agents.
	Serves() bool

	// Serve has a runtime of an owner serve agents until its stream ends. It calls begun once what is
	// offered was taken. Errors are statuses.
	Serve(owner auth.Owner, stream grpc.BidiStreamingServer[pb.ServeRequest, pb.ServeResponse], begun func(*pb.AgentOffer)) error

	// Counts returns how many runtimes serve, how many tasks they work on, and how many wait.
	Counts() (runtimes, running, waiting int)
}

// agentService answers AgentService.
type agentService struct {
	pb.UnimplementedAgentServiceServer
	agents  Agents // nil: there are none
	auditor *auditor
	logger  *zap.Logger
}

func (s *agentService) ListAgents(ctx context.Context, request *pb.ListAgentsRequest) (*pb.ListAgentsResponse, error) {
	owner, err := ownerOf(ctx, request, mayView)
	if err != nil || s.agents == nil {
		return &pb.ListAgentsResponse{}, err
	}
	return &pb.ListAgentsResponse{Agents: s.agents.List(owner)}, nil
}

func (s *agentService) Serve(stream grpc.BidiStreamingServer[pb.ServeRequest, pb.ServeResponse]) error {
	if s.agents == nil || !s.agents.Serves() {
		return status.Error(codes.FailedPrecondition, "runtimes may not serve agents here: the operator permits it in the configuration, with agents: {serve: true}")
	}
	ctx := stream.Context()
	return s.agents.Serve(principalOf(ctx).Owner(), stream, func(offer *pb.AgentOffer) {
		var names []string
		for _, a := range offer.GetAgents() {
			names = append(names, a.GetName())
		}
		s.auditor.servedAgents(ctx, names)
		s.logger.Info("a runtime serves agents", zap.String("principal", principalOf(ctx).Name), zap.Strings("agents", names))
	})
}

// servedAgents records that a runtime offers agents.
func (a *auditor) servedAgents(ctx context.Context, names []string) {
	p := principalOf(ctx)
	a.log.Append(audit.Record{
		Step: audit.AgentsServed, Tenant: p.Tenant, Principal: p.Name, OnBehalfOf: p.OnBehalfOf, From: peerOf(ctx),
		Count: uint64(len(names)), Reason: strings.Join(names, " "),
	})
}

// agentMeter has Prometheus see how many runtimes serve agents.
type agentMeter struct{ agents Agents }

var (
	agentRuntimes = prometheus.NewDesc("toolserver_agent_runtimes", "How many runtimes serve agents.", nil, nil)
	agentTasks    = prometheus.NewDesc("toolserver_agent_runtime_tasks", "How many tasks runtimes work on, and how many wait for one.", []string{"state"}, nil)
)

func (m agentMeter) Describe(to chan<- *prometheus.Desc) {
	to <- agentRuntimes
	to <- agentTasks
}

func (m agentMeter) Collect(to chan<- prometheus.Metric) {
	runtimes, running, waiting := m.agents.Counts()
	to <- prometheus.MustNewConstMetric(agentRuntimes, prometheus.GaugeValue, float64(runtimes))
	to <- prometheus.MustNewConstMetric(agentTasks, prometheus.GaugeValue, float64(running), "running")
	to <- prometheus.MustNewConstMetric(agentTasks, prometheus.GaugeValue, float64(waiting), "waiting")
}
