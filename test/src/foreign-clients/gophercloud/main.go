// Calls a director's /v1 as gophercloud's acceptance tests of nodes, drivers and vendor passthru call Ironic, without those
// that need a node of their own. Arguments: the address and the file of the authorities. Prints what it was answered as JSON.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/httpbasic"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/drivers"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// statusOf returns the status of a call that was refused, and 0 for one that succeeded.
func statusOf(err error) int {
	if refused, is := err.(gophercloud.ErrUnexpectedResponseCode); is {
		return refused.Actual
	}
	if err != nil {
		log.Fatal(err)
	}
	return 0
}

func main() {
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(must(os.ReadFile(os.Args[2])))
	client := must(httpbasic.NewBareMetalHTTPBasic(httpbasic.EndpointOpts{
		IronicEndpoint:     os.Args[1] + "/v1/",
		IronicUser:         "admin",
		IronicUserPassword: "pw-admin",
	}))
	client.HTTPClient = http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}}
	client.Microversion = "1.38"
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	names := func(all []nodes.Node) []string {
		found := []string{}
		for _, node := range all {
			found = append(found, node.Name)
		}
		return found
	}
	// The second page comes by the link of the first one.
	listed := must(nodes.ExtractNodes(must(nodes.List(client, nodes.ListOpts{Limit: 1}).AllPages(ctx))))
	detailed := must(nodes.ExtractNodes(must(nodes.ListDetail(client, nodes.ListOpts{SortKey: "name", SortDir: "desc"}).AllPages(ctx))))
	filtered := must(nodes.ExtractNodes(must(nodes.List(client, nodes.ListOpts{Driver: "other"}).AllPages(ctx))))
	node := must(nodes.Get(ctx, client, "host-1").Extract())
	validation := must(nodes.Validate(ctx, client, node.UUID).Extract())
	listedPorts := must(ports.ExtractPorts(must(ports.List(client, ports.ListOpts{}).AllPages(ctx))))
	listedDrivers := must(drivers.ExtractDrivers(must(drivers.ListDrivers(client, drivers.ListDriversOpts{}).AllPages(ctx))))
	driver := must(drivers.GetDriverDetails(ctx, client, listedDrivers[0].Name).Extract())
	properties := must(drivers.GetDriverProperties(ctx, client, driver.Name).Extract())
	nodeMethods := must(nodes.ListVendorPassthruMethods(ctx, client, node.UUID).Extract())
	driverMethods := must(drivers.ListVendorPassthruMethods(ctx, client, driver.Name).Extract())

	callNode := func(verb, method string, body any) nodes.CallVendorPassthruResult {
		return nodes.CallVendorPassthru(ctx, client, node.UUID, verb, nodes.VendorPassthruCallOpts{Method: method, Body: body})
	}
	callDriver := func(verb, method string, body any) drivers.CallVendorPassthruResult {
		options := drivers.VendorPassthruCallOpts{Method: method, Body: body}
		return drivers.CallVendorPassthru(ctx, client, driver.Name, verb, options)
	}
	synchronous := callNode("POST", "third_method_sync", map[string]any{"bar": "meow"})
	asynchronous := callNode("POST", "second_method", map[string]any{"bar": "kazoo"})
	echoed := callDriver("PUT", "d_echo", map[string]any{"a": 1})
	for _, err := range []error{synchronous.Err, asynchronous.Err, echoed.Err} {
		must(0, err)
	}

	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"nodes":       names(listed),
		"detailed":    names(detailed),
		"filtered":    names(filtered),
		"maintenance": node.Maintenance,
		"power":       validation.Power.Result,
		"ports":       len(listedPorts),
		"driver":      driver.Name,
		"properties":  len(*properties),
		"node_method": nodeMethods["third_method_sync"].HTTPMethods,
		"has_d_echo":  len(driverMethods["d_echo"].HTTPMethods) > 0,
		"sync":        []any{synchronous.StatusCode, synchronous.Body},
		"async":       asynchronous.StatusCode,
		"echoed":      echoed.Body,
		"refused": map[string]int{
			"unknown_node":          statusOf(nodes.Get(ctx, client, "nobody").Err),
			"unknown_driver":        statusOf(drivers.GetDriverDetails(ctx, client, "nope").Err),
			"missing_node_method":   statusOf(callNode("POST", "missing_method", map[string]any{}).Err),
			"missing_driver_method": statusOf(callDriver("POST", "missing_method", map[string]any{}).Err),
			"delete":                statusOf(nodes.Delete(ctx, client, node.UUID).Err),
			"maintenance":           statusOf(nodes.SetMaintenance(ctx, client, node.UUID, nodes.MaintenanceOpts{Reason: "r"}).Err),
		},
	})
}
