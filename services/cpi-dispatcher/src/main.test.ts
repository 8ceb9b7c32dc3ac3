import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CallContext, CpiServiceDefinition } from "@diskmesh/api/cpi";
import { newCall, RemoteCpi, reasonOfFailed } from "@diskmesh/cpi/testing";
import { createClient } from "@diskmesh/rpc";
import {
  eventually,
  freePort,
  ServiceProcess,
  type TestCertificates,
  temporaryFolder,
  testCertificates,
} from "@diskmesh/testkit";
import { expect } from "chai";
import { processesOf } from "./testing/processes.js";
import { writeScript } from "./testing/test-dispatcher.js";

const context = CallContext.fromPartial({ directorId: "d1", directorGeneration: 1 });

describe("the dispatcher's process", () => {
  let certs: TestCertificates;
  let address: string;
  let config: object;
  const started: ServiceProcess[] = [];

  before(async () => {
    certs = await testCertificates();
  });

  beforeEach(async () => {
    const port = await freePort();
    address = `127.0.0.1:${port}`;
    config = {
      listen: { host: "127.0.0.1", port },
      tls: certs.files("cpi-dispatcher"),
      registry: { address: `127.0.0.1:${await freePort()}` },
    };
  });

  afterEach(async () => {
    for (const process of started.splice(0)) await process.kill();
  });

  async function start(change: object, waitFor: "serving" | "nothing" = "serving"): Promise<ServiceProcess> {
    const process = new ServiceProcess({
      name: "cpi-dispatcher",
      mainFile: fileURLToPath(new URL("./main.js", import.meta.url)),
      config: { ...config, ...change },
      folder: temporaryFolder(),
      health: { address, tls: certs.files("operator"), serverRole: "cpi-dispatcher" },
      waitFor,
    });
    started.push(process);
    await process.start();
    return process;
  }

  function connect() {
    const tls = certs.files("director");
    return createClient(CpiServiceDefinition, {
      address,
      tls,
      serverRole: "cpi-dispatcher",
      defaultDeadlineMs: 60_000,
    });
  }

  it("serves without its registry, answers UNAVAILABLE where it needs it, and stops cleanly", async () => {
    const process = await start({});
    const client = connect();
    const { cpis } = await client.listCpis({ context });
    expect(cpis).to.deep.equal([
      { name: "fleet", type: "fleet", apiVersion: 2, stemcellFormats: [], lastError: "", azs: [], directorId: "" },
    ]);
    expect(await reasonOfFailed(new RemoteCpi(client).hasVm("vm-x", newCall()))).to.equal("UNAVAILABLE");
    client.close();
    expect(await process.stop()).to.include({ code: 0 });
  });

  it("kills the processes that it left running when it was killed, before it serves again", async () => {
    const folder = temporaryFolder();
    const runFolder = join(folder, "run");
    const execPath = writeScript(folder, "cpi", "sleep 100 & exec sleep 100");
    const change = {
      cpis: [{ name: "script", type: "script", execPath }],
      executables: { jobsFolder: folder, runFolder },
    };
    const first = await start(change);
    const client = connect();
    const calling = client.hasVm({ context, vmCid: "v" }).catch(() => {});
    await eventually(async () => (await processesOf(runFolder)).length === 2);
    await first.kill();
    await calling;
    expect(await processesOf(runFolder)).to.have.length(2);
    await start(change);
    expect(await processesOf(runFolder)).to.deep.equal([]);
    client.close();
  });

  it("kills running CPIs when it stops", async () => {
    const folder = temporaryFolder();
    const runFolder = join(folder, "run");
    const execPath = writeScript(folder, "cpi", "sleep 100 & exec sleep 100");
    const service = await start({
      cpis: [{ name: "script", type: "script", execPath }],
      executables: { jobsFolder: folder, runFolder },
    });
    const client = connect();
    const calling = reasonOfFailed(client.hasVm({ context, vmCid: "v" }));
    await eventually(async () => (await processesOf(runFolder)).length === 2);
    expect(await service.stop()).to.include({ code: 0 });
    expect(await processesOf(runFolder)).to.deep.equal([]);
    expect(existsSync(runFolder)).to.equal(false);
    expect(await calling).to.equal("UNAVAILABLE");
    client.close();
  });

  it("offers each configured registry as a CPI", async () => {
    await start({
      cpis: [
        { name: "cell-b", type: "fleet" },
        { name: "cell-a", type: "fleet", registry: { address: "127.0.0.1:1" } },
      ],
    });
    const client = connect();
    expect((await client.listCpis({ context })).cpis.map((cpi) => cpi.name)).to.deep.equal(["cell-a", "cell-b"]);
    client.close();
  });

  it("needs no registry without a fleet CPI", async () => {
    await start({ registry: undefined, cpis: [{ name: "script", type: "script" }] });
    const client = connect();
    expect((await client.listCpis({ context })).cpis.map((cpi) => cpi.name)).to.deep.equal(["script"]);
    client.close();
  });

  for (const [what, change, key] of [
    ["an unknown key", { colour: "red" }, "colour"],
    ["no registry", { registry: undefined }, "registry"],
    ["a CPI of a type that is a path", { cpis: [{ name: "x", type: "../aws" }] }, "cpis.0.type"],
    [
      "an executable for the fleet CPI",
      { cpis: [{ name: "x", type: "fleet", execPath: "/bin/true" }] },
      "cpis.0.execPath",
    ],
    [
      "two CPIs with the same name",
      {
        cpis: [
          { name: "x", type: "fleet" },
          { name: "x", type: "fleet" },
        ],
      },
      "cpis",
    ],
    ["no CPI", { cpis: [] }, "cpis"],
    [
      "a CPI's time that is longer than any call's",
      { executables: { callTimeoutMs: 7_200_001 } },
      "executables.callTimeoutMs",
    ],
  ] as const)
    it(`does not start with ${what}, and logs one line with the reason`, async () => {
      const process = await start(change, "nothing");
      while (!process.exit) await new Promise((resolve) => setTimeout(resolve, 20));
      expect(process.exit).to.include({ code: 78 });
      expect(process.logs.trim().split("\n")).to.have.length(1);
      expect(process.logs).to.include(`${key}:`);
    });
});
