// A client in Go, of what protoc-gen-go makes of proto/. Arguments: the addresses of a registry and a director, the files
// of the authorities, the certificate and its key. Prints what it was answered as JSON.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log"
	"os"
	"time"

	_ "diskmesh/common/v1"
	_ "diskmesh/cpi/v1"
	directorv1 "diskmesh/director/v1"
	registryv1 "diskmesh/registry/v1"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	registryAddress, directorAddress := os.Args[1], os.Args[2]
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(must(os.ReadFile(os.Args[3])))
	certificate := must(tls.LoadX509KeyPair(os.Args[4], os.Args[5]))
	mutual := credentials.NewTLS(&tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{certificate}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	registry := must(grpc.NewClient(registryAddress, grpc.WithTransportCredentials(mutual)))
	director := must(grpc.NewClient(directorAddress, grpc.WithTransportCredentials(mutual)))
	hosts := registryv1.NewDiskRegistryServiceClient(registry)
	health := must(grpc_health_v1.NewHealthClient(registry).Check(ctx, &grpc_health_v1.HealthCheckRequest{}))
	added := must(hosts.AddHost(ctx, &registryv1.AddHostRequest{HostId: "host-1"}))
	tasks := must(directorv1.NewTaskServiceClient(director).ListTasks(ctx, &directorv1.ListTasksRequest{}))

	_, refusal := hosts.AddHost(ctx, &registryv1.AddHostRequest{})
	details := map[string]any{}
	for _, detail := range status.Convert(refusal).Details() {
		switch known := detail.(type) {
		case *errdetails.ErrorInfo:
			details["reason"] = known.Reason
		case *errdetails.BadRequest:
			details["field"] = known.FieldViolations[0].Field
		}
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"health":  health.Status.String(),
		"added":   added.Result.Code.String(),
		"tasks":   len(tasks.Tasks),
		"refused": status.Code(refusal).String(),
		"details": details,
	})
}
