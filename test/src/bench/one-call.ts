import { HealthDefinition } from "@diskmesh/api/grpc-health";
import { createClient } from "@diskmesh/rpc";

/** The least that a Node program does that asks a service something: one call over TLS. */
const [address = "", caFile = "", certFile = "", keyFile = ""] = process.argv.slice(2);
const tls = { caFile, certFile, keyFile };
const client = createClient(HealthDefinition, { address, tls, serverRole: "director", defaultDeadlineMs: 30_000 });
await client.check({ service: "" });
client.close();
