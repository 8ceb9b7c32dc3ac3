import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { HttpClient } from "@diskmesh/director/testing";
import { eventually, skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { ProcessVms } from "./process-vms/process-vms.js";
import { repositoryFolder } from "./repository-folder.js";

/** Replacement for the bosh CLI that records its arguments in the current folder. */
const NOTING_BOSH = `#!/bin/sh\nprintf '%s\\n' "$*" >> bosh-calls\n`;

interface ListedVm {
  readonly job_state: string;
  readonly active: boolean;
  readonly vitals: { readonly load?: readonly string[] } | null;
}

/** Uses diskmesh's own agent, and only the requests of the bosh CLI. */
describe("docs/tutorial/stock-agents.md", function () {
  this.timeout(600_000);
  let vms: ProcessVms;
  let http: HttpClient;
  let folder: string;

  before(async () => {
    // The fleet CPI is first, as in `npm start`.
    vms = await ProcessVms.start({ moreCpis: [{ name: "fleet", type: "fleet" }] });
    http = vms.mesh.http();
    folder = temporaryFolder();
  });
  after(() => vms?.[Symbol.asyncDispose]());

  const send = async (path: string, file: string, type: string) => {
    const request = { headers: { "content-type": type }, body: readFileSync(join(folder, file)) };
    const { task, result } = await http.task("POST", path, request);
    expect(task.state, result).to.equal("done");
  };

  /** Effect of each CLI command, by its arguments. */
  const calls: readonly (readonly [called: RegExp, does: (file: string) => Promise<unknown>])[] = [
    [/^-n upload-stemcell (\S+)$/, (file) => send("/stemcells", file, "application/x-compressed")],
    [
      /^-n update-cloud-config (\S+)$/,
      async (file) => {
        const content = readFileSync(join(folder, file), "utf8");
        const body = JSON.stringify({ type: "cloud", name: "default", content });
        const headers = { "content-type": "application/json" };
        expect((await http.send("POST", "/configs", { headers, body })).status).to.equal(201);
      },
    ],
    [/^-n -d web deploy (\S+)$/, (file) => send("/deployments", file, "text/yaml")],
    [
      /^-d web vms --vitals$/,
      () =>
        eventually(async () => {
          const { result } = await http.task("GET", "/deployments/web/instances?format=full");
          const vms = result
            .split("\n")
            .filter(Boolean)
            .map((line) => JSON.parse(line) as ListedVm);
          expect(vms.map(({ job_state, active }) => [job_state, active])).to.deep.equal([
            ["running", true],
            ["running", true],
          ]);
          for (const { vitals } of vms) expect(vitals?.load).to.have.length(3);
        }),
    ],
  ];

  it("the typed commands deploy two VMs whose agents run and report vitals", async function () {
    skipWithout(this, "tar");
    writeFileSync(join(folder, "bosh"), NOTING_BOSH, { mode: 0o755 });
    const env = { ...process.env, PATH: `${folder}:${process.env.PATH}` };
    execFileSync("sh", ["-eu", "-c", typed()], { cwd: folder, env, stdio: "inherit" });
    const noted = readFileSync(join(folder, "bosh-calls"), "utf8").trimEnd().split("\n");
    for (const line of noted) {
      const [called, does] = calls.find(([pattern]) => pattern.test(line)) ?? [];
      if (called === undefined || does === undefined)
        throw new Error(`the page calls bosh as this test does not: ${line}`);
      await does(called.exec(line)?.[1] ?? "");
    }
    expect(noted).to.have.length(calls.length);
  });
});

function typed(): string {
  const text = readFileSync(join(repositoryFolder, "docs/tutorial/stock-agents.md"), "utf8");
  const block = /^```sh$(.*?)^```$/ms.exec(text)?.[1];
  if (block === undefined) throw new Error("the page has no block of sh");
  return block;
}
