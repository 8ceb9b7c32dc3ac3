import { expect } from "chai";
import { type BoshCli, linesOf, parsed, reads, refused, YAML } from "./bosh-cli.js";
import { manifest, type Seen, type Step } from "./walk.js";

const DEP = "/deployments/dep";

interface Vm {
  readonly id: string;
  readonly index: number;
  readonly vm_cid: string | null;
  readonly job_state: string | null;
  readonly disk_cids: readonly string[];
}

/** Deploys as the CLI does: first requests the diff, then sends its context with the manifest. */
export async function deploy(cli: BoshCli, text: string, query = ""): Promise<void> {
  expect(await cli.get("/configs?latest=true&limit=1&type=deploy")).to.deep.equal([]);
  const sent = await cli.send("POST", `${DEP}/diff?redact=true`, YAML, text);
  const { diff, context } = parsed<{ diff: unknown[]; context: object }>(sent);
  expect(JSON.stringify(diff)).not.to.include("canary-in-env");
  const wanted = `context=${encodeURIComponent(JSON.stringify(context))}${query}`;
  const { events } = await cli.done("POST", `/deployments?${wanted}`, YAML, text);
  for (const event of events)
    reads(event, {
      time: "number",
      stage: "string",
      task: "string",
      index: "number",
      total: "number",
      state: "string",
    });
}

export async function vmsOf(cli: BoshCli, kind: "vms" | "instances" = "vms"): Promise<Vm[]> {
  const found = linesOf<Vm>(await cli.done("GET", `${DEP}/${kind}?format=full`));
  for (const vm of found) {
    reads(vm, { id: "string", index: "number", job_name: "string", state: "string", vm_cid: "string?" });
    reads(vm, { job_state: "string?", az: "string?", agent_id: "string?", disk_cid: "string?", ignore: "boolean" });
    reads(vm, { ips: "strings", disk_cids: "strings", vitals: "object?", stemcell: "object?", bootstrap: "boolean" });
  }
  return found.sort((a, b) => a.index - b.index);
}

async function look(cli: BoshCli, seen: Seen, kind: "vms" | "instances"): Promise<void> {
  const found = await vmsOf(cli, kind);
  expect(found.map(({ job_state }) => job_state)).to.deep.equal(found.map(() => "running"));
  seen.instanceIds = found.map(({ id }) => id);
  seen.vmCids = found.map(({ vm_cid }) => vm_cid ?? "");
  seen.diskCids = found.flatMap(({ disk_cids }) => disk_cids);
}

async function lookAtAll(cli: BoshCli, seen: Seen, kind: "vms" | "instances"): Promise<void> {
  expect((await cli.get<object[]>("/deployments")).map((each) => (each as { name: string }).name)).to.deep.equal([
    "dep",
  ]);
  await look(cli, seen, kind);
}

/** Changes the "state" of jobs of the whole deployment or of some, as older clients and `bosh start` do. */
const jobs = (cli: BoshCli, which: string, state: string) =>
  cli.done("PUT", `${DEP}/jobs/${which}?state=${state}`, YAML);

const action = (cli: BoshCli, id: string | undefined, name: string, query: string) =>
  cli.done("POST", `${DEP}/instance_groups/web/${id}/actions/${name}${query}`, YAML);

const ignore = async (cli: BoshCli, id: string | undefined, wanted: boolean): Promise<void> => {
  const type = { "content-type": "application/json" };
  const path = `${DEP}/instance_groups/web/${id}/ignore`;
  expect((await cli.send("PUT", path, type, JSON.stringify({ ignore: wanted }))).status).to.equal(200);
};

/** Commands of a deployment's life, from the first deploy on. */
export const deploymentSteps: readonly Step[] = [
  ["deploy --dry-run", (cli) => deploy(cli, manifest(2), "&dry_run=true")],
  ["deploy", (cli) => deploy(cli, manifest(2))],
  [
    "deployments",
    async (cli) => {
      const [found] = await cli.get<object[]>("/deployments?exclude_configs=true");
      reads(found ?? {}, { name: "string", cloud_config: "string", teams: "strings" });
      expect(found).to.deep.include({ name: "dep", stemcells: [{ name: "ubuntu", version: "1.10" }] });
    },
  ],
  [
    "deployment",
    async (cli) => {
      expect(await cli.get<object[]>("/deployments")).to.have.length(1);
      const [found] = await cli.get<{ config: object }[]>("/deployment_configs?deployment[]=dep");
      reads(found?.config ?? {}, { id: "number", type: "string", name: "string" });
    },
  ],
  [
    "manifest",
    async (cli) => {
      expect(await cli.get(DEP)).to.deep.equal({ manifest: manifest(2) });
    },
  ],
  ["vms", (cli, seen) => lookAtAll(cli, seen, "vms")],
  ["-d vms", (cli, seen) => look(cli, seen, "vms")],
  ["-d vms --vitals", (cli, seen) => look(cli, seen, "vms")],
  ["instances", (cli, seen) => lookAtAll(cli, seen, "instances")],
  ["-d instances --ps", (cli, seen) => look(cli, seen, "instances")],
  ["-d instances --details", (cli, seen) => look(cli, seen, "instances")],
  ["stop", (cli) => jobs(cli, "*", "stopped")],
  ["start GROUP", (cli) => jobs(cli, "web", "started")],
  ["stop --hard", (cli) => jobs(cli, "*", "detached")],
  ["start GROUP", (cli) => jobs(cli, "web", "started")],
  ["restart GROUP/ID", (cli, seen) => jobs(cli, `web/${seen.instanceIds[0]}`, "restart")],
  ["recreate GROUP/INDEX", (cli) => jobs(cli, "web/0", "recreate")],
  [
    "recreate --no-converge --fix",
    (cli, seen) => action(cli, seen.instanceIds[0], "recreate", "?ignore_unresponsive_agent=true"),
  ],
  [
    "stop --hard --no-converge --skip-drain",
    async (cli, seen) => {
      await action(cli, seen.instanceIds[1], "stop", "?hard=true&skip_drain=true");
      expect((await vmsOf(cli, "instances"))[1]).to.include({ vm_cid: null, state: "detached" });
      await jobs(cli, "web", "started");
    },
  ],
  ["ignore", (cli, seen) => ignore(cli, seen.instanceIds[0], true)],
  ["unignore", (cli, seen) => ignore(cli, seen.instanceIds[0], false)],
  [
    "deploy --recreate --fix --canaries --max-in-flight --skip-drain",
    (cli) => deploy(cli, manifest(2), "&canaries=2&fix=true&max_in_flight=3&recreate=true&skip_drain=%2A"),
  ],
  ["-d vms", (cli, seen) => look(cli, seen, "vms")],
  ["delete-vm", (cli, seen) => cli.done("DELETE", `/vms/${seen.vmCids[1]}`)],
  [
    "cloud-check --report",
    async (cli) => {
      await cli.done("POST", `${DEP}/scans`, { "content-type": "application/json" });
      const [found] = await cli.get<object[]>(`${DEP}/problems`);
      reads(found ?? {}, { id: "number", type: "string", description: "string" });
      for (const each of (found as { resolutions: object[] }).resolutions)
        reads(each, { name: "string?", plan: "string" });
    },
  ],
  [
    "cloud-check",
    async (cli) => {
      const type = { "content-type": "application/json" };
      await cli.done("POST", `${DEP}/scans`, type);
      const [problem] = await cli.get<{ id: number; resolutions: { name: string }[] }[]>(`${DEP}/problems`);
      const name = problem?.resolutions.map((each) => each.name).find((each) => each === "recreate_vm");
      const wanted = JSON.stringify({ resolutions: { [String(problem?.id)]: name } });
      await cli.done("PUT", `${DEP}/problems`, type, wanted);
      await cli.done("POST", `${DEP}/scans`, type);
      expect(await cli.get(`${DEP}/problems`)).to.deep.equal([]);
    },
  ],
  [
    "take-snapshot",
    async (cli) => {
      await cli.done("POST", `${DEP}/snapshots`);
    },
  ],
  [
    "snapshots",
    async (cli) => {
      const [found] = await cli.get<object[]>(`${DEP}/snapshots`);
      reads(found ?? {}, {
        job: "string",
        index: "number",
        uuid: "string",
        snapshot_cid: "string",
        created_at: "string",
        clean: "boolean",
      });
    },
  ],
  [
    "variables",
    async (cli) => {
      expect(await cli.get(`${DEP}/variables`)).to.deep.equal([]);
    },
  ],
  [
    "errands",
    async (cli) => {
      expect(await cli.get(`${DEP}/errands`)).to.deep.equal([]);
    },
  ],
  [
    "run-errand",
    async (cli) => {
      const wanted = JSON.stringify({ instances: [], "keep-alive": false, "when-changed": false });
      refused(await cli.send("POST", `${DEP}/errands/web/runs`, { "content-type": "application/json" }, wanted));
    },
  ],
];
