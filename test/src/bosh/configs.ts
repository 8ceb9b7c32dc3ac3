import { stemcellFile } from "@diskmesh/testkit";
import { expect } from "chai";
import { type BoshCli, parsed, reads, refused, TGZ, YAML } from "./bosh-cli.js";
import { CLOUD_CONFIG, type Step } from "./walk.js";

const CPI_CONFIG = `cpis:
- name: process
  properties:
    password: SECRET-canary
  type: process
`;

const CONFIG = { id: "string", type: "string", name: "string", content: "string", created_at: "string" } as const;

interface Diff {
  readonly diff: readonly (readonly [line: string, kind: string | null])[];
}

async function update(cli: BoshCli, type: string, name: string, content: string): Promise<void> {
  const { from, diff } = await cli.post<Diff & { from: { id: string } }>("/configs/diff", { type, name, content });
  expect(from.id).to.be.a("string");
  for (const [line] of diff) expect(line).not.to.include("SECRET-canary");
  const made = await cli.post<object>("/configs", { type, name, content, expected_latest_id: from.id }, 201);
  reads(made, CONFIG);
  expect(made).to.include({ type, name, content });
}

async function updateOlder(cli: BoshCli, path: string, query: string, content: string): Promise<void> {
  const { diff } = parsed<Diff>(await cli.send("POST", `${path}/diff${query}`, YAML, content));
  for (const [line] of diff) expect(line).not.to.include("SECRET-canary");
  expect((await cli.send("POST", `${path}${query}`, YAML, content)).status).to.equal(201);
}

async function upload(cli: BoshCli, query: string): Promise<void> {
  const { events } = await cli.done("POST", `/stemcells${query}`, TGZ, stemcellFile());
  expect(events[0]).to.include({ stage: "Update stemcell", state: "started" });
}

/** Commands from the login to everything that a deployment needs. */
export const configSteps: readonly Step[] = [
  [
    "env",
    async (cli) => {
      expect(await cli.info()).to.include({ user: "admin" });
    },
  ],
  [
    "log-in",
    async (cli) => {
      expect(await cli.info("admin:wrong")).to.include({ user: null });
      expect(await cli.info()).to.include({ user: "admin" });
    },
  ],
  ["update-config --type=cpi", (cli) => update(cli, "cpi", "proc", CPI_CONFIG)],
  [
    "update-cpi-config",
    (cli) => updateOlder(cli, "/cpi_configs", "", CPI_CONFIG.replace("name: process", "name: other")),
  ],
  [
    "cpi-config",
    async (cli) => {
      const [found] = await cli.get<object[]>("/cpi_configs?limit=1");
      reads(found ?? {}, { properties: "string", created_at: "string" });
    },
  ],
  [
    "delete-config",
    async (cli) => {
      for (const name of ["proc", "default"])
        expect((await cli.send("DELETE", `/configs?name=${name}&type=cpi`)).status).to.equal(204);
      expect((await cli.send("DELETE", "/configs?name=x&type=cloud")).status).to.equal(404);
    },
  ],
  ["update-config --type=cloud", (cli) => update(cli, "cloud", "default", `${CLOUD_CONFIG}vm_extensions: []\n`)],
  ["update-cloud-config", (cli) => updateOlder(cli, "/cloud_configs", "?name=", CLOUD_CONFIG)],
  [
    "update-runtime-config",
    async (cli) => {
      refused(await cli.send("POST", "/runtime_configs/diff?name=", YAML, "addons: []\n"));
    },
  ],
  [
    "configs",
    async (cli) => {
      const found = await cli.get<object[]>("/configs?latest=true&limit=1");
      expect(found).to.have.length(1);
      reads(found[0] ?? {}, CONFIG);
    },
  ],
  [
    "config",
    async (cli) => {
      const [found] = await cli.get<object[]>("/configs?latest=true&limit=1&name=default&type=cloud");
      expect(found).to.include({ content: CLOUD_CONFIG });
    },
  ],
  [
    "cloud-config",
    async (cli) => {
      const [found] = await cli.get<object[]>("/cloud_configs?limit=1&name=");
      expect(found).to.include({ properties: CLOUD_CONFIG });
    },
  ],
  [
    "upload-stemcell",
    async (cli) => {
      const stemcell = { name: "ubuntu", version: "1.10" };
      expect(await cli.post("/stemcell_uploads", { stemcell })).to.deep.equal({ needed: true });
      await upload(cli, "");
      expect(await cli.post("/stemcell_uploads", { stemcell })).to.deep.equal({ needed: false });
    },
  ],
  ["upload-stemcell --fix", (cli) => upload(cli, "?fix=true")],
  [
    "upload-stemcell URL",
    async (cli) => {
      expect(await cli.post("/stemcell_uploads", { stemcell: { name: "s", version: "1" } })).to.include({
        needed: true,
      });
      const wanted = { location: "https://127.0.0.1/sc.tgz", sha1: "a".repeat(40) };
      const type = { "content-type": "application/json" };
      const { task } = await cli.task("POST", "/stemcells", type, JSON.stringify(wanted));
      // A director fetches only from addresses that its config allows.
      expect(task.state).to.equal("error");
      expect(task.result).to.include("127.0.0.1");
    },
  ],
  [
    "stemcells",
    async (cli) => {
      const [found] = await cli.get<object[]>("/stemcells");
      reads(found ?? {}, {
        name: "string",
        version: "string",
        operating_system: "string",
        cid: "string",
        cpi: "string",
      });
      expect(found).to.deep.include({ name: "ubuntu", version: "1.10", deployments: [] });
    },
  ],
];
