import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { HealthDefinition } from "@diskmesh/api/grpc-health";
import { AgentRegistrationServiceDefinition } from "@diskmesh/api/internal";
import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { CancelledError, NotFoundError, TimeoutError } from "@diskmesh/domain";
import { rejection, skipWithout } from "@diskmesh/domain/testing";
import { expect } from "chai";
import type { Handlers, ServiceDefinition } from "../call/definition.js";
import { DEFAULT_RPC_SERVER_LIMITS } from "../call/limits.js";
import { createClient } from "../client/following.js";
import { waitForHealth } from "../client/health-client.js";
import { Bench, eventually, rawClient } from "../testing/note-bench.js";
import { findProtoFolder } from "./infrastructure.js";
import { RpcServer } from "./server.js";

const run = promisify(execFile);

/** Generous, because the machine may be busy. */
const PATIENCE_MS = 60_000;

/** Handlers that refuse every call with the method's name, so that tests can tell methods apart. */
function refusingHandlers<Definition extends ServiceDefinition>(definition: Definition): Handlers<Definition> {
  const names = Object.keys(definition.methods);
  return Object.fromEntries(
    names.map((name) => [
      name,
      async () => {
        throw new NotFoundError(`nothing for ${name}`, { about: { host_id: "h-1" }, retryAfterMs: 1250 });
      },
    ]),
  ) as unknown as Handlers<Definition>;
}

describe("health and reflection", () => {
  const bench = new Bench();
  let server: RpcServer;
  const files = (name: string) => bench.files(name);
  const address = () => `127.0.0.1:${bench.port}`;

  function grpcurl(...args: string[]): Promise<{ stdout: string; stderr: string }> {
    const { caFile, certFile, keyFile } = files("operator");
    const tls = ["-cacert", caFile, "-cert", certFile, "-key", keyFile];
    // grpcurl checks host names, and the certificate has none for this address, so it is given a name of the
    // certificate.
    const options = args.filter((arg) => arg.startsWith("-") || arg.startsWith("{"));
    const words = args.filter((arg) => !options.includes(arg));
    return run("grpcurl", [...tls, "-authority", "localhost", ...options, address(), ...words], {
      timeout: PATIENCE_MS,
    });
  }

  before(async () => {
    await bench.makeCertificates();
    server = new RpcServer({
      tls: files("disk-registry"),
      limits: { ...DEFAULT_RPC_SERVER_LIMITS, maxConcurrentCalls: 1, drainTimeoutMs: 500 },
    });
    server.addService(DiskRegistryServiceDefinition, {
      roles: ["operator"],
      handlers: refusingHandlers(DiskRegistryServiceDefinition),
    });
    server.addService(AgentRegistrationServiceDefinition, {
      roles: ["disk-agent"],
      handlers: refusingHandlers(AgentRegistrationServiceDefinition),
    });
    bench.port = await server.listen({ host: "127.0.0.1", port: 0 });
  });
  after(async () => {
    await server.drain();
    bench.remove();
  });

  it("report NOT_SERVING until set otherwise, for the server and each service", async () => {
    const names = ["", "diskmesh.registry.v1.DiskRegistryService"];
    const options = { address: address(), tls: files("operator"), serverRole: "disk-registry" as const };
    for (const service of names) {
      server.setServing(false);
      // On a busy machine the client may not have connected by then.
      await eventually(() =>
        rejection(waitForHealth({ ...options, service, timeoutMs: 150 }), TimeoutError, "NOT_SERVING"),
      );
      await waitForHealth({ ...options, service, accept: "any", timeoutMs: PATIENCE_MS });
      server.setServing(true);
      await waitForHealth({ ...options, service, timeoutMs: PATIENCE_MS });
    }
  });

  it("list all parts at once, report each change to watchers, and refuse unknown parts", async () => {
    const client = createClient(HealthDefinition, {
      address: address(),
      tls: files("operator"),
      serverRole: "disk-registry",
      defaultDeadlineMs: PATIENCE_MS,
    });
    const service = "a part";
    await rejection(client.check({ service }), NotFoundError, "a part");
    const seen: string[] = [];
    const leaving = new AbortController();
    const watching = (async () => {
      for await (const { status } of client.watch({ service }, { signal: leaving.signal })) seen.push(status);
    })();
    await eventually(async () => expect(seen).to.deep.equal(["SERVICE_UNKNOWN"]));
    server.setHealth(service, true);
    server.setHealth("another part", false);
    server.setHealth(service, false, "it is away");
    server.setHealth(service, false, "it is still away");
    server.setHealth(service, undefined);
    server.setHealth(service, false, "it is \n away");
    await eventually(async () =>
      expect(seen.slice(1)).to.deep.equal(["SERVING", "NOT_SERVING", "UNKNOWN", "NOT_SERVING"]),
    );
    leaving.abort();
    await rejection(watching, CancelledError, "");
    server.setServing(true);
    const { statuses } = await client.list({});
    expect(statuses[""]).to.deep.equal({ status: "SERVING" });
    expect(statuses[service]).to.deep.equal({ status: "NOT_SERVING" });
    client.close();
  });

  it("answer grpcurl's health check of the server and of a service", async function () {
    skipWithout(this, "grpcurl");
    server.setServing(true);
    const health = await grpcurl("grpc.health.v1.Health/Check");
    expect(JSON.parse(health.stdout)).to.deep.equal({ status: "SERVING" });
    const one = await grpcurl(
      "-d",
      '{"service":"diskmesh.registry.v1.DiskRegistryService"}',
      "grpc.health.v1.Health/Check",
    );
    expect(JSON.parse(one.stdout)).to.deep.equal({ status: "SERVING" });
  });

  it("answer grpcurl with the missing dependency and the reason when the server is not ready, while its services serve", async function () {
    skipWithout(this, "grpcurl");
    server.setServing(true, false, "nats: it is\naway");
    server.setHealth("nats", false, "it is away");
    const health = await grpcurl("-v", "grpc.health.v1.Health/Check");
    expect(health.stdout).to.contain('"status": "NOT_SERVING"').and.to.contain("diskmesh-why: nats: it is?away");
    const options = { address: address(), tls: files("operator"), serverRole: "disk-registry" as const };
    // On a busy machine the client may not have connected by then.
    await eventually(() =>
      rejection(waitForHealth({ ...options, timeoutMs: 300 }), TimeoutError, /NOT_SERVING, because it lacks: .*nats/),
    );
    await waitForHealth({ ...options, service: "diskmesh.registry.v1.DiskRegistryService", timeoutMs: PATIENCE_MS });
    server.setServing(true);
  });

  it("describe exactly the added services to grpcurl, completely", async function () {
    skipWithout(this, "grpcurl");
    const { stdout } = await grpcurl("list");
    expect(stdout.trim().split("\n")).to.include.members([
      "diskmesh.internal.v1.AgentRegistrationService",
      "diskmesh.registry.v1.DiskRegistryService",
    ]);
    expect(stdout).not.to.contain("DiskAgentService");
    const described = await grpcurl("describe", "diskmesh.registry.v1.DiskRegistryService");
    for (const method of Object.values(DiskRegistryServiceDefinition.methods))
      expect(described.stdout).to.contain(`rpc ${method.name} `);
  });

  it("give grpcurl the proto comments of methods, messages, fields, oneofs and enum values", async function () {
    skipWithout(this, "grpcurl");
    const files = ["registry/v1/disk_registry_service", "registry/v1/types", "director/v1/config_service"];
    const protoFiles = files.flatMap((name) => ["-proto", `diskmesh/${name}.proto`]);
    const names = ["registry.v1.DiskRegistryService", "registry.v1.WatchDevicesResponse", "registry.v1.AttachState"];
    for (const name of [...names, "director.v1.UpdateConfigRequest"]) {
      const symbol = `diskmesh.${name}`;
      const args = ["-import-path", findProtoFolder(), ...protoFiles, "describe", symbol];
      // grpcurl must print the same from reflection as from the files themselves.
      const [fromFiles, reflected] = await Promise.all([run("grpcurl", args), grpcurl("describe", symbol)]);
      expect(reflected.stdout).to.match(/^ +\/\/ \w/m);
      expect(reflected.stdout).to.equal(fromFiles.stdout);
    }
  });

  it("let grpcurl make a call by reflection alone, and read the error's details", async function () {
    skipWithout(this, "grpcurl");
    const error = await rejection(grpcurl("-format-error", "diskmesh.registry.v1.DiskRegistryService/ListHosts"));
    const status = JSON.parse(String(error.stderr));
    expect(status).to.include({ code: 5, message: "nothing for listHosts" });
    expect(status.details).to.deep.equal([
      {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        reason: "NOT_FOUND",
        domain: "diskmesh",
        metadata: { host_id: "h-1" },
      },
      { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "1.250s" },
    ]);
  });

  it("let buf curl make a call by reflection alone", async () => {
    const { caFile, certFile, keyFile } = files("operator");
    const buf = join(dirname(createRequire(import.meta.url).resolve("@bufbuild/buf/package.json")), "bin", "buf");
    const url = `https://localhost:${bench.port}/diskmesh.registry.v1.DiskRegistryService/ListHosts`;
    const tls = ["--cacert", caFile, "--cert", certFile, "--key", keyFile];
    const args = ["curl", "--protocol", "grpc", ...tls, "-d", "{}", url];
    const error = await rejection(run(process.execPath, [buf, ...args], { timeout: PATIENCE_MS }));
    expect(JSON.parse(String(error.stderr))).to.include({ code: "not_found", message: "nothing for listHosts" });
  });

  it("refuse bytes that are no reflection request, in both versions, and keep working", async function () {
    skipWithout(this, "grpcurl");
    const client = rawClient(bench, "operator");
    for (const version of ["v1", "v1alpha"]) {
      const path = `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`;
      expect(await client.raw(path, Buffer.from([0xff, 0xff]))).to.include({ code: 3 });
    }
    client.close();
    expect((await grpcurl("list")).stdout).to.contain("DiskRegistryService");
  });

  it("do not delay a stop", async function () {
    skipWithout(this, "grpcurl");
    const other = new RpcServer({
      tls: files("disk-registry"),
      limits: { ...DEFAULT_RPC_SERVER_LIMITS, drainTimeoutMs: PATIENCE_MS },
    });
    other.addService(DiskRegistryServiceDefinition, {
      roles: ["operator"],
      handlers: refusingHandlers(DiskRegistryServiceDefinition),
    });
    const port = await other.listen({ host: "127.0.0.1", port: 0 });
    const { caFile, certFile, keyFile } = files("operator");
    const tls = ["-cacert", caFile, "-cert", certFile, "-key", keyFile, "-authority", "localhost"];
    const watching = run("grpcurl", [...tls, `127.0.0.1:${port}`, "grpc.health.v1.Health/Watch"]);
    const watch = rejection(watching);
    await new Promise((resolve) => watching.child.stdout?.once("data", resolve));
    const startedMs = performance.now();
    await other.drain();
    expect(performance.now() - startedMs).to.be.lessThan(PATIENCE_MS / 2);
    expect((await watch).stderr).to.contain("stopping");
  });

  it("find the proto folder from the package", () => {
    expect(findProtoFolder()).to.match(/\/proto$/);
  });
});
