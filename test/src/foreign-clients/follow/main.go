// Follows the devices of a registry in Go, over keepalives and restarts. Arguments: the address of a registry, the files of
// the authorities, the certificate and its key. Prints each message of the watch as a line. A line on standard input
// cancels the stream; the end of standard input ends the client.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	registryv1 "diskmesh/registry/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func lineOf(message *registryv1.WatchDevicesResponse) string {
	switch update := message.Update.(type) {
	case *registryv1.WatchDevicesResponse_SnapshotBegin:
		return "snapshot_begin"
	case *registryv1.WatchDevicesResponse_SnapshotEnd:
		return "snapshot_end"
	case *registryv1.WatchDevicesResponse_Device:
		return update.Device.DeviceId + " " + update.Device.Health.String()
	default:
		return "removed_device_id"
	}
}

func main() {
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(must(os.ReadFile(os.Args[2])))
	certificate := must(tls.LoadX509KeyPair(os.Args[3], os.Args[4]))
	mutual := credentials.NewTLS(&tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{certificate}})
	patience := backoff.DefaultConfig
	patience.MaxDelay = 2 * time.Second
	registry := registryv1.NewDiskRegistryServiceClient(must(grpc.NewClient(os.Args[1],
		grpc.WithTransportCredentials(mutual),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: patience, MinConnectTimeout: 20 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 10 * time.Second, Timeout: 20 * time.Second, PermitWithoutStream: true,
		}))))

	var lock sync.Mutex
	cancel := func() {}
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			lock.Lock()
			cancel()
			lock.Unlock()
		}
		os.Exit(0)
	}()
	for token := ""; ; {
		lock.Lock()
		ctx, end := context.WithCancel(context.Background())
		cancel = end
		lock.Unlock()
		request := &registryv1.WatchDevicesRequest{ResumeToken: token}
		stream, err := registry.WatchDevices(ctx, request, grpc.WaitForReady(true))
		for err == nil {
			var message *registryv1.WatchDevicesResponse
			if message, err = stream.Recv(); err != nil {
				break
			}
			if message.ResumeToken != "" {
				token = message.ResumeToken
			}
			fmt.Println(lineOf(message))
		}
		fmt.Println("ended", status.Code(err))
		switch status.Code(err) {
		case codes.Unavailable:
			time.Sleep(time.Second)
		case codes.Canceled:
		default:
			log.Fatal(err)
		}
	}
}
