// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Command cluster shows several replicas of toolserver that behave as one: it starts three NATS
// servers and three replicas on loopback ports, makes a call at one replica and cancels it
// through another. They serve until it is interrupted; with -demo, it ends by itself; with
// -nats, it starts no replicas.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

const size = 3

func main() {
	program := flag.String("program", ".bin/toolserver", "the `file` of toolserver")
	demo := flag.Bool("demo", false, "end after the call")
	alone := flag.Bool("nats", false, "start the NATS servers alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	replicas := size
	if *alone {
		replicas = 0
	}
	if err := run(ctx, *program, replicas, *demo); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program string, replicas int, demo bool) error {
	dir, err := os.MkdirTemp("", "toolserver-cluster-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	urls, stopNATS, err := startNATS(dir)
	defer stopNATS()
	if err != nil {
		return err
	}
	fmt.Println("NATS servers:", strings.Join(urls, " "))
	var addresses []string
	for n := range replicas {
		address, stop, err := startReplica(ctx, program, filepath.Join(dir, fmt.Sprint("replica", n+1)), strings.Join(urls, ","))
		defer stop()
		if err != nil {
			return fmt.Errorf("replica %d: %w", n+1, err)
		}
		fmt.Printf("replica %d:    %s\n", n+1, address)
		addresses = append(addresses, address)
	}
	if replicas == 0 {
		<-ctx.Done()
		return nil
	}
	if err := show(ctx, addresses); err != nil || demo {
		return err
	}
	fmt.Printf("\nThey serve until Ctrl-C. Try: toolserver call --address %s bash command='sleep 60'\n", addresses[0])
	<-ctx.Done()
	return nil
}

// startNATS starts the servers that keep the state. stop is never nil.
func startNATS(dir string) (urls []string, stop func(), err error) {
	var servers []*server.Server
	stop = func() {
		for _, s := range servers {
			s.Shutdown()
			s.WaitForShutdown()
		}
	}
	ports, err := freePorts(2 * size)
	if err != nil {
		return nil, stop, err
	}
	var routes []*url.URL
	for _, port := range ports[size:] {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", port)})
	}
	for i := range size {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprint("n", i+1), Host: "127.0.0.1", Port: ports[i], NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprint("nats", i+1)), SyncAlways: true,
			Cluster: server.ClusterOpts{Name: "state", Host: "127.0.0.1", Port: ports[size+i]}, Routes: routes,
		})
		if err != nil {
			return nil, stop, err
		}
		s.Start()
		servers = append(servers, s)
		urls = append(urls, fmt.Sprint("nats://127.0.0.1:", ports[i]))
	}
	for _, s := range servers {
		for deadline := time.Now().Add(time.Minute); !s.ReadyForConnections(time.Second) || !s.JetStreamIsCurrent(); {
			if time.Now().After(deadline) {
				return nil, stop, errors.New("the NATS servers do not find each other")
			}
			time.Sleep(20 * time.Millisecond) // there is nothing to wait on
		}
	}
	return urls, stop, nil
}

func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // once all are known, so that none is given twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// startReplica starts a server, and returns where it serves. stop is never nil; it ends the
// server in good order.
func startReplica(ctx context.Context, program, dir, urls string) (address string, stop func(), err error) {
	stop = func() {}
	workspace := filepath.Join(dir, "workspace")
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		return "", stop, err
	}
	cmd := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--admin", "off", "--workspace", workspace) //nolint:gosec // who runs this names it
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                                                        // Ctrl-C is for this program, which ends it
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+dir, "TOOLSERVER_STATE_ENGINE=cluster", "TOOLSERVER_STATE_URL="+urls)
	log, err := cmd.StderrPipe()
	if err != nil {
		return "", stop, err
	}
	if err := cmd.Start(); err != nil {
		return "", stop, err
	}
	stop = func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	}
	defer context.AfterFunc(ctx, func() { cmd.Process.Signal(syscall.SIGTERM) })()
	var last string
	for lines := bufio.NewScanner(log); lines.Scan(); last = lines.Text() {
		var entry struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "serving" {
			go io.Copy(io.Discard, log) // so that the server never waits for us
			return entry.Address, stop, nil
		}
	}
	return "", stop, fmt.Errorf("it does not serve: %s", last)
}

// show makes a call at the first replica, and cancels it through the second.
func show(ctx context.Context, addresses []string) error {
	var clients []pb.ToolServiceClient
	for _, address := range addresses {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer conn.Close()
		clients = append(clients, pb.NewToolServiceClient(conn))
	}
	const id = "sleeps"
	stream, err := clients[0].ExecuteTool(ctx, &pb.ExecuteToolRequest{Tool: "sleep", CallId: new(id), InputJson: []byte(`{"duration_ms": 600000}`)})
	if err != nil {
		return err
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		event := response.GetEvent()
		if event.GetStarted() != nil {
			fmt.Printf("\nA call of the tool sleep runs at replica 1, as execution %s.\n", event.GetExecutionId())
			began := time.Now()
			cancelled, err := clients[1].Cancel(ctx, &pb.CancelRequest{ExecutionId: event.GetExecutionId(), Reason: "shown enough"})
			if err != nil {
				return err
			}
			fmt.Printf("Replica 2 was asked to cancel it, and answered %s after %s.\n", cancelled.GetExecution().GetOutcome(), time.Since(began).Round(10*time.Microsecond))
		}
		if finished := event.GetFinished(); finished != nil {
			fmt.Printf("Who made the call at replica 1 was told: %s: %s\n", finished.GetOutcome(), finished.GetFailure().GetMessage())
			break
		}
	}
	got, err := clients[2].GetExecution(ctx, &pb.GetExecutionRequest{CallId: id})
	if err != nil {
		return err
	}
	fmt.Printf("Replica 3 knows the call by its id as well: %s.\n", got.GetExecution().GetOutcome())
	return nil
}
