import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TaskOutputType } from "@diskmesh/api/director";
import { MIB_BYTES } from "@diskmesh/domain";
import { LEGACY_DRIVER, OWN_USER, SAMPLE_DRIVER } from "@diskmesh/driver/testing";
import { type MetricDeclaration, prometheusNames } from "@diskmesh/metrics";
import { eventually, freePort, leaveToVerify, skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { HEAD_BYTES } from "./mesh/device-files.js";
import { wholeFleet } from "./mesh/fleets.js";
import { addHosts, deployInstances, devicesReady, provideDisk } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { done } from "./mesh/typed-lines.js";
import { AlertWatch } from "./metrics/alert-watch.js";
import { FAULT_ALERTS } from "./metrics/fault-alerts.js";
import { runbookSections } from "./metrics/monitoring.js";
import { METRICS } from "./metrics/page.js";
import { TraceCollector } from "./secrets/trace-collector.js";

describe("the telemetry of a mesh", () => {
  let mesh: TestMesh;
  let traces: TraceCollector;
  let ports: Readonly<Record<string, number>>;
  let [instanceId, diskCid, taskId] = ["", "", 0];
  /** File of a driver that is missing at first. */
  const missing = join(temporaryFolder(), "missing.mjs");

  before(async () => {
    traces = await TraceCollector.start();
    const telemetry = { otlpEndpoint: traces.url };
    const drivers = [SAMPLE_DRIVER, missing].map((driver) => ({ package: driver, ...OWN_USER }));
    const env = { OTEL_BSP_SCHEDULE_DELAY: "200" };
    ports = Object.fromEntries(
      await Promise.all(
        ["director", "cpi-dispatcher", "disk-registry", "disk-agent"].map(async (name) => [name, await freePort()]),
      ),
    );
    const overrides = Object.fromEntries(
      Object.entries(ports).map(([name, port]) => [
        name,
        { telemetry, metrics: { listen: { port } }, ...(name === "disk-agent" && { drivers }) },
      ]),
    );
    mesh = await TestMesh.start(
      wholeFleet({ hosts: 1, devicesPerHost: 2, deviceSizeBytes: HEAD_BYTES + 2 * MIB_BYTES, overrides, env }),
    );
    await addHosts(mesh);
    await devicesReady(mesh);
    [instanceId = ""] = await deployInstances(mesh);
    diskCid = await provideDisk(mesh, "data", instanceId);
  });
  after(async () => {
    await mesh?.[Symbol.asyncDispose]();
    await traces?.close();
  });

  const scrape = async (name: string): Promise<string> => {
    const answer = await fetch(`http://127.0.0.1:${ports[name]}/metrics`);
    return answer.text();
  };

  it("one provide is one trace through director, NATS, CPI, registry and agent", async () => {
    const places: [string, RegExp][] = [
      ["director", /DynamicDiskService\/ProvideDynamicDisk$/],
      ["director", /^task provide_dynamic_disk$/],
      ["director", /CpiService\/CreateDisk$/],
      ["cpi-dispatcher", /CpiService\/AttachDisk$/],
      ["disk-registry", /DiskRegistryService\/PublishDisk$/],
      ["disk-agent", /DiskAgentService\/ExportDisk$/],
      ["director", /^mbus\/add_dynamic_disk$/],
      ["disk-agent", /^mbus\/add_dynamic_disk$/],
    ];
    await eventually(() => {
      const task = traces.spans.find(({ name }) => name === "task provide_dynamic_disk");
      const same = traces.spans.filter(({ traceId }) => traceId === task?.traceId);
      for (const [service, name] of places)
        expect(
          same.filter((span) => span.service === service && name.test(span.name)),
          `${name}`,
        ).not.to.be.empty;
    });
    const task = traces.spans.find(({ name }) => name === "task provide_dynamic_disk");
    expect(task?.attributes).to.include({ "diskmesh.disk_name": "data", "diskmesh.instance_id": instanceId });
    taskId = Number(task?.attributes["diskmesh.task_id"]);
    expect(task?.attributes["diskmesh.request_id"]).to.equal(`task-${taskId}`);
    const publish = traces.spans.find(({ name, service }) => /PublishDisk/.test(name) && service === "disk-registry");
    expect(publish?.attributes).to.have.property("diskmesh.disk_id");

    const { lines } = await mesh.clients.tasks.getTaskOutput({ taskId, type: TaskOutputType.DEBUG });
    expect(lines).to.include(`trace ${task?.traceId}`);
  });

  it("spans and metrics of a call have the same names, of OpenTelemetry's semantic conventions", async () => {
    const method = "diskmesh.director.v1.DynamicDiskService/ProvideDynamicDisk";
    const provided = traces.spans.find(({ name, service }) => name === method && service === "director");
    const called = { "rpc.system.name": "grpc", "rpc.method": method, "rpc.status_code": "OK" };
    expect(provided?.attributes).to.include(called);
    const labels = Object.entries(called).map(([name, value]) => `${name.replaceAll(".", "_")}="${value}"`);
    expect(await scrape("director")).to.include(`rpc_server_call_duration_seconds_count{${labels.join()}} 1\n`);
    const created = traces.spans.find(({ name, service }) => /CreateDisk$/.test(name) && service === "director");
    const [host, port] = mesh.address("cpi-dispatcher").split(":");
    expect(created?.attributes).to.include({ "server.address": host, "server.port": Number(port) });
    const told = traces.spans.filter(({ name }) => name === "mbus/add_dynamic_disk");
    const agent = traces.spans.find(
      ({ name, service }) => name === "mbus/add_dynamic_disk" && service === "disk-agent",
    );
    for (const { service, attributes } of told)
      expect(attributes).to.include({
        "rpc.system.name": "mbus",
        "messaging.system.name": "nats",
        "messaging.destination.name": `agent.${agent?.attributes["diskmesh.agent_id"]}`,
        "messaging.destination.template": "agent.{agent_id}",
        "messaging.operation.type": service === "director" ? "send" : "process",
      });
  });

  it("each process names itself and its host in the resource of traces and metrics, without its arguments", async () => {
    for (const name of Object.keys(ports)) {
      const [{ resource } = { resource: undefined }] = traces.spans.filter(({ service }) => service === name);
      const info = /^target_info{(.*)} 1$/m.exec(await scrape(name))?.[1];
      for (const key of ["service.instance.id", "service.version", "host.name"])
        expect(info, key).to.include(`${key.replaceAll(".", "_")}="${resource?.[key]}"`);
      if (existsSync("/etc/machine-id")) expect(resource).to.have.property("host.id").that.is.a("string");
      expect(`${Object.keys(resource ?? {})} ${info}`).not.to.match(/command/);
    }
    const instances = new Set(traces.spans.map(({ resource }) => resource["service.instance.id"]));
    expect(instances.size).to.be.at.least(Object.keys(ports).length);
  });

  it("promtool finds nothing wrong with the metrics of each process", async function () {
    skipWithout(this, "promtool");
    for (const name of Object.keys(ports)) {
      const { status, stdout, stderr } = spawnSync("promtool", ["check", "metrics"], {
        input: await scrape(name),
        encoding: "utf8",
      });
      expect({ status, said: `${stdout}${stderr}` }, name).to.deep.equal({ status: 0, said: "" });
    }
  });

  it("successful operations make no error, and heartbeats make no trace", () => {
    const named = (pattern: RegExp) => traces.spans.filter(({ name }) => pattern.test(name));
    expect(named(/Heartbeat$/)).to.deep.equal([]);
    expect(named(/Health\/(Check|Watch)$/)).to.deep.equal([]);
    const [task] = named(/^task provide_dynamic_disk$/);
    const failed = traces.spans.filter((span) => span.traceId === task?.traceId && span.failed);
    expect(failed.map(({ service, name }) => `${service} ${name}`)).to.deep.equal([]);
  });

  it("log lines of director and dispatcher carry the trace's id", async () => {
    for (const name of ["director", "cpi-dispatcher"])
      expect(mesh.process(name).logs, name).to.match(/"traceId":"[0-9a-f]{32}"/);
  });

  it("each process serves exactly the metrics of docs/reference/metrics.md", async () => {
    const told = new Set<string>();
    for (const name of Object.keys(ports))
      for (const line of (await scrape(name)).split("\n"))
        if (line !== "" && !line.startsWith("#")) told.add(line.split(/[{ ]/)[0] as string);
    const declared = [...METRICS.values()].flat().flatMap((one: MetricDeclaration) => prometheusNames(one));
    expect([...told].filter((name) => !declared.includes(name))).to.deep.equal(["target_info"]);
    await until("disk-registry", 'diskmesh_disks{state="PUBLISHED"} 1');
    await until("disk-registry", 'diskmesh_hosts{state="ONLINE"} 1');
    await until("disk-agent", 'diskmesh_driver_up{driver="sample"} 1');
    await until("disk-agent", `diskmesh_driver_up{driver="${missing}"} 0`);
    await eventually(async () => {
      const ofMissing = (await scrape("disk-agent")).split(`diskmesh_driver_restarts_total{driver="${missing}"} `)[1];
      expect(Number.parseInt(ofMissing ?? "", 10)).to.be.at.least(1);
    });
    await putDriver();
    await until("director", 'diskmesh_provide_phase_duration_seconds_count{phase="total"} 1');
  });

  it("a stream that its reader ends is no error, and belongs to no task's trace", async () => {
    await mesh.process("director").stop();
    const ended = (service: string) =>
      traces.spans.filter((span) => span.service === service && /WatchCpiLog$/.test(span.name));
    await eventually(() => {
      expect(ended("director")).to.have.length(1);
      expect(ended("cpi-dispatcher").map(({ traceId }) => traceId)).to.include(ended("director")[0]?.traceId);
    });
    const [stream] = ended("director");
    expect(traces.spans.filter(({ traceId, failed }) => traceId === stream?.traceId && failed)).to.deep.equal([]);
    const tasks = traces.spans.filter(({ name }) => name.startsWith("task "));
    expect(tasks.map(({ traceId }) => traceId)).not.to.include(stream?.traceId);
    await mesh.process("director").start();
  });

  const until = (name: string, sample: string) =>
    eventually(async () => expect(await scrape(name)).to.include(`${sample}\n`));

  async function putDriver(): Promise<void> {
    writeFileSync(missing, `export { default } from ${JSON.stringify(LEGACY_DRIVER)};`);
    await until("disk-agent", 'diskmesh_driver_up{driver="legacy"} 1');
  }

  it("faults fire their expected alerts, and no other", async function () {
    leaveToVerify(this);
    skipWithout(this, "promtool");
    await putDriver();
    const alerts = new AlertWatch(Object.entries(ports).map(([name, port]) => ({ job: `diskmesh-${name}`, port })));
    await until("director", "diskmesh_ready 1");
    await alerts.fires([]);

    await mesh.process("cpi-dispatcher").kill();
    await until("director", 'diskmesh_need{need="dispatcher"} 0');
    await alerts.fires(FAULT_ALERTS["the cpi-dispatcher is gone"]);
    await mesh.process("cpi-dispatcher").start();
    await until("director", "diskmesh_ready 1");

    await mesh.process("host-1").kill();
    await until("disk-registry", 'diskmesh_troubles{kind="DISK",code="HOST_IN_TROUBLE"} 1');
    await alerts.fires(FAULT_ALERTS["the host of a published disk is gone"]);
    await mesh.process("host-1").start();
  });

  it("the runbook's commands run as written", async () => {
    const names = {
      HOST: "host-1",
      DEVICE: "host-1-device-1",
      DISK: diskCid,
      POOL: "default",
      TASK: String(taskId),
      VM: instanceId,
    };
    for (const command of new Set([...runbookSections().values()].flat())) {
      const typed = command.replace(
        /\b(HOST|DEVICE|DISK|POOL|TASK|VM)\b/g,
        (name) => names[name as keyof typeof names],
      );
      // A busy service may seem away for a moment, and that is what the metrics must show.
      await done(mesh, typed.replace(/^npx /, ""));
    }
  });
});
