import { HealthDefinition } from "@diskmesh/api/grpc-health";
import { createClient } from "@diskmesh/rpc";

/** Minimal Node program that makes one call to a service over TLS. */
const [address = "", caFile = "", certFile = "", keyFile = ""] = process.argv.slice(2);
const tls = { caFile, certFile, keyFile };
const client = createClient(HealthDefinition, { address, tls, serverRole: "director", defaultDeadlineMs: 30_000 });
await client.check({ service: "" });
client.close();
