import { readdirSync, readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CpiConfig, CpiServiceDefinition } from "@diskmesh/api/cpi";
import { createClient } from "@diskmesh/rpc";
import {
  eventually,
  freePort,
  type ServiceProcess,
  spawnService,
  temporaryFolder,
  testCertificates,
} from "@diskmesh/testkit";
import { expect } from "chai";
import { processesOf } from "./testing/processes.js";
import { contextOf, writeScript } from "./testing/test-dispatcher.js";

const CANARIES = ["canary-password-7f3a", 'canary "quoted" 91', "canary-nested-55ab", "canary-env-c0de", "4242424242"];
const PEM = "-----BEGIN PRIVATE KEY-----\ncanaryPemLine\n-----END PRIVATE KEY-----\n";

/** Tells everything it was told, wherever it can: on standard error, in its log and in its error; then waits a while. */
const BLABS = `
read -r request
echo "told: $request" >&2
case "$request" in
'{"method":"info"'*) echo '{"result":{"api_version":2},"error":null,"log":""}'; exit ;;
*slow*) sleep 1 ;;
*garbage*) echo "$request"; exit ;;
esac
password=$(echo "$request" | sed -n 's/.*"password":"\\([^"]*\\)".*/\\1/p')
echo "{\\"result\\":null,\\"error\\":{\\"type\\":\\"Bosh::Clouds::$password\\",\\"message\\":\\"cannot log in as admin:$password\\",\\"ok_to_retry\\":false},\\"log\\":\\"used $password\\"}"`;

describe("secrets of CPIs", () => {
  it("are in no log, error, trace, file, list or process argument, though the CPI tells them all", async () => {
    const certs = await testCertificates();
    const folder = temporaryFolder();
    const traces = await TraceCollector.start();
    const port = await freePort();
    const address = `127.0.0.1:${port}`;
    const runFolder = join(folder, "run");
    const service: ServiceProcess = await spawnService({
      name: "cpi-dispatcher",
      mainFile: fileURLToPath(new URL("./main.js", import.meta.url)),
      folder,
      config: {
        listen: { host: "127.0.0.1", port },
        tls: certs.files("cpi-dispatcher"),
        log: { level: "trace" },
        telemetry: { otlpEndpoint: traces.url },
        registry: { address: "127.0.0.1:1" },
        executables: { runFolder },
      },
      health: { address, tls: certs.files("operator"), serverRole: "cpi-dispatcher" },
    });
    const tls = certs.files("director");
    const director = createClient(CpiServiceDefinition, {
      address,
      tls,
      serverRole: "cpi-dispatcher",
      defaultDeadlineMs: 10_000,
    });
    const seen: string[] = [];
    try {
      const stopWatching = new AbortController();
      const watching = (async () => {
        for await (const { line } of director.watchCpiLog({ logId: "log" }, { signal: stopWatching.signal }))
          seen.push(line);
      })().catch(() => {});
      const properties = {
        password: CANARIES[0],
        quoted: CANARIES[1],
        nested: { deep: [CANARIES[2]], account: 4_242_424_242, pem: PEM },
      };
      const cpi = CpiConfig.fromPartial({
        name: "a",
        type: "script",
        execPath: writeScript(folder, "cpi", BLABS),
        properties,
      });
      const set = (cpis: CpiConfig[], cpiConfigVersion: string) =>
        director.setCpiConfig({ directorId: "d1", directorGeneration: 1, cpiConfigVersion, cpis });
      await set([cpi], "v");
      const at = (cpi: string) => contextOf(1, { cpi, cpiConfigVersion: "v", logId: "log" });
      const remember = (error: Error & { about?: object }) => {
        seen.push(error.message, JSON.stringify(error.about), String(error.stack));
      };
      const env = { top: CANARIES[3], bosh: { password: CANARIES[3], group: "shown" } };
      const vm = { agentId: "a1", stemcellCid: "s", networks: {}, env, cloudProperties: {} };
      await director.createVm({ ...vm, context: at("a") }).catch(remember);
      await director.hasVm({ context: at("a"), vmCid: "garbage" }).catch(remember);
      await director.hasVm({ context: at("nobody"), vmCid: "v" }).catch(remember);
      await set([cpi, cpi], "v2").catch(remember);
      await set(
        [
          { ...cpi, type: "fleet", execPath: "" },
          { ...cpi, name: "../x" },
        ],
        "v3",
      ).catch(remember);
      const slow = director.hasVm({ context: at("a"), vmCid: "slow" }).catch(remember);
      await eventually(async () => (await processesOf(runFolder)).length > 0);
      for (const pid of await processesOf(runFolder)) seen.push(...procTexts(pid), ...procTexts(service.pid));
      seen.push(...filesBelow(runFolder));
      await slow;
      const { cpis } = await director.listCpis({ context: at("") });
      seen.push(JSON.stringify(cpis));
      await eventually(() => seen.some((line) => line.includes('"slow"')));
      stopWatching.abort();
      await watching;
    } finally {
      director.close();
      await service.stop();
    }
    await traces.stop();
    // What proves that there was something to hide, and that it was looked for in the right places.
    expect(seen.join("\n"))
      .to.include("told:")
      .and.include("<redacted>")
      .and.include("cannot log in as admin:<redacted>");
    expect(seen.join("\n")).to.include('"group":"shown"');
    expect(service.logs).to.include("CreateVm failed");
    expect(traces.received).to.include("CreateVm");
    const everything = [...seen, service.logs, traces.received, ...filesBelow(folder, "cpi-dispatcher.log")].join("\n");
    for (const canary of [...CANARIES, JSON.stringify(CANARIES[1]).slice(1, -1), "canaryPemLine"])
      expect(everything.includes(canary), canary).to.equal(false);
  });
});

function procTexts(pid: number): string[] {
  return ["cmdline", "environ"].map((name) => {
    try {
      return readFileSync(`/proc/${pid}/${name}`, "latin1");
    } catch {
      return "";
    }
  });
}

function filesBelow(folder: string, only?: string): string[] {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return names
    .filter((entry) => only === undefined || entry.name === only)
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "latin1"));
}

/** Takes what a process exports as traces. */
class TraceCollector {
  received = "";

  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {}

  static async start(): Promise<TraceCollector> {
    const server = createServer((request, response) => {
      request.setEncoding("latin1").on("data", (text: string) => {
        collector.received += text;
      });
      request.on("end", () => response.end("{}"));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const collector = new TraceCollector(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    return collector;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
