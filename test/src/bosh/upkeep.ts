import { expect } from "chai";
import { type BoshCli, JSON_TYPE, parsed, reads, readsTask, YAML } from "./bosh-cli.js";
import { deploy, vmsOf } from "./deployments.js";
import { manifest, type Step } from "./walk.js";

const DEP = "/deployments/dep";
const LIVE = "/tasks?state=processing%2Ccancelling%2Cqueued&verbose=2";
const EVENT = { id: "string", timestamp: "number", user: "string", action: "string", object_type: "string" } as const;

async function tasks(cli: BoshCli, query: string): Promise<{ id: number; state: string }[]> {
  const found = await cli.get<{ id: number; state: string }[]>(query);
  for (const task of found) readsTask(task);
  return found;
}

/** Requests an ended task, and one of its outputs from the first byte on; an empty output gives 416. */
async function output(cli: BoshCli, taskId: number, type: string): Promise<void> {
  for (let time = 0; time < 2; time++) readsTask(await cli.get<object>(`/tasks/${taskId}`));
  const range = { range: "bytes=0-" };
  const { status, body, headers } = await cli.send("GET", `/tasks/${taskId}/output?type=${type}`, range);
  expect(status).to.equal(body === "" ? 416 : 206);
  if (status === 206) expect(headers["content-range"]).to.match(/^bytes 0-\d+\/\d+$/);
}

/** Starts a task as `bosh curl` does, which prints the answer behind the redirect. */
async function curl(cli: BoshCli, method: string, path: string, type?: object, body?: string): Promise<void> {
  const { status, headers } = await cli.send(method, path, { ...type } as Record<string, string>, body);
  expect(status).to.equal(302);
  const task = await cli.get<{ id: number }>(headers.location ?? "");
  readsTask(task);
  for (;;) {
    const { state } = await cli.get<{ state: string }>(`/tasks/${task.id}`);
    if (state === "done") return;
    expect(state).to.be.oneOf(["queued", "processing"]);
  }
}

/** Commands with which operators inspect, calls that programs make at run time, and the deletion of everything. */
export const upkeepSteps: readonly Step[] = [
  [
    "curl POST /dynamic_disks/provide",
    (cli, seen) => {
      const wanted = { disk_name: "d", instance_id: seen.instanceIds[0], disk_pool_name: "small", disk_size: 1 };
      return curl(cli, "POST", "/dynamic_disks/provide", JSON_TYPE, JSON.stringify(wanted));
    },
  ],
  [
    "curl /dynamic_disks",
    async (cli) => {
      const [found] = await cli.get<object[]>("/dynamic_disks");
      expect(found).to.include({ name: "d" });
    },
  ],
  ["curl POST /dynamic_disks/d/detach", (cli) => curl(cli, "POST", "/dynamic_disks/d/detach")],
  ["curl DELETE /dynamic_disks/d", (cli) => curl(cli, "DELETE", "/dynamic_disks/d")],
  ["tasks", (cli) => tasks(cli, LIVE)],
  [
    "tasks --recent",
    async (cli, seen) => {
      const found = await tasks(cli, "/tasks?limit=30&verbose=1");
      expect(found).to.have.length.within(1, 30);
      seen.taskId = found[0]?.id ?? 0;
    },
  ],
  [
    "tasks --recent=5 -a",
    async (cli) => {
      expect(await tasks(cli, "/tasks?limit=5&verbose=2")).to.have.length(5);
    },
  ],
  ["task 1", (cli) => output(cli, 1, "event")],
  ["task 1 --event", (cli) => output(cli, 1, "event")],
  ["task 1 --result", (cli) => output(cli, 1, "result")],
  ["task 1 --debug", (cli) => output(cli, 1, "debug")],
  ["task 1 --cpi", (cli) => output(cli, 1, "cpi")],
  [
    "task --all",
    async (cli, seen) => {
      expect(await tasks(cli, LIVE)).to.deep.equal([]);
      await output(cli, seen.taskId, "event");
    },
  ],
  [
    "cancel-task",
    async (cli) => {
      await cli.get("/tasks/1");
      // The task has ended, and the CLI says so.
      const { status, body } = await cli.send("DELETE", "/task/1");
      expect(status, body).to.equal(400);
      expect(body).to.match(/^Cannot cancel task 1/);
    },
  ],
  [
    "cancel-tasks",
    async (cli) => {
      expect((await cli.send("POST", "/tasks/cancel", JSON_TYPE, "{}")).status).to.equal(204);
    },
  ],
  [
    "locks",
    async (cli) => {
      expect(await cli.get("/locks")).to.deep.equal([]);
    },
  ],
  [
    "events",
    async (cli, seen) => {
      const found = await cli.get<{ id: string }[]>("/events");
      for (const event of found) reads(event, EVENT);
      seen.eventId = Number(found.at(-1)?.id);
    },
  ],
  [
    "events --deployment --before-id",
    async (cli, seen) => {
      const found = await cli.get<{ id: string }[]>(`/events?before_id=${seen.eventId}&deployment=dep`);
      for (const { id } of found) expect(Number(id)).to.be.below(seen.eventId);
    },
  ],
  [
    "update-resurrection",
    async (cli) => {
      const wanted = JSON.stringify({ resurrection_paused: true });
      expect((await cli.send("PUT", "/resurrection", JSON_TYPE, wanted)).status).to.equal(204);
    },
  ],
  [
    "releases",
    async (cli) => {
      expect(await cli.get("/releases")).to.deep.equal([]);
    },
  ],
  [
    "networks --orphaned",
    async (cli) => {
      expect(await cli.get("/networks?orphaned=true")).to.deep.equal([]);
    },
  ],
  [
    "orphaned-vms",
    async (cli) => {
      expect(await cli.get("/orphaned_vms")).to.deep.equal([]);
    },
  ],
  ["delete-deployment", (cli) => cli.done("DELETE", DEP)],
  ["disks", () => Promise.resolve()],
  [
    "disks --orphaned",
    async (cli, seen) => {
      const found = await cli.get<{ disk_cid: string }[]>("/disks");
      for (const disk of found)
        reads(disk, { disk_cid: "string", size: "number", deployment_name: "string", orphaned_at: "string" });
      expect(found.map(({ disk_cid }) => disk_cid)).to.have.members(seen.diskCids);
    },
  ],
  [
    "attach-disk",
    async (cli, seen) => {
      await deploy(cli, manifest(1));
      const [{ id } = { id: "" }] = await vmsOf(cli);
      // Stops the jobs first, because they may use the disk until then.
      await cli.done("PUT", `${DEP}/jobs/web?state=stopped`, YAML);
      await cli.done("PUT", `/disks/${seen.diskCids[0]}/attachments?deployment=dep&instance_id=${id}&job=web`);
      expect((await vmsOf(cli))[0]?.disk_cids).to.deep.equal([seen.diskCids[0]]);
    },
  ],
  [
    "orphan-disk",
    async (cli, seen) => {
      await cli.done("DELETE", `/disks/${seen.diskCids[0]}?orphan=true`);
      const found = await cli.get<{ disk_cid: string }[]>("/disks");
      expect(found.map(({ disk_cid }) => disk_cid)).to.include(seen.diskCids[0]);
    },
  ],
  ["delete-disk", (cli, seen) => cli.done("DELETE", `/disks/${seen.diskCids[0]}`)],
  [
    "clean-up --all --dry-run",
    async (cli, seen) => {
      const found = await cli.get<Record<string, { disk_cid?: string }[]>>(
        "/cleanup/dryrun?keep_orphaned_disks=false&remove_all=true",
      );
      for (const name of ["releases", "stemcells", "compiled_packages", "orphaned_disks", "orphaned_vms"])
        expect(found[name], name).to.be.an("array");
      expect(found.orphaned_disks?.map(({ disk_cid }) => disk_cid)).to.include(seen.diskCids[1]);
    },
  ],
  [
    "clean-up",
    (cli) => {
      const wanted = { config: { keep_orphaned_disks: false, remove_all: false } };
      return cli.done("POST", "/cleanup", JSON_TYPE, JSON.stringify(wanted));
    },
  ],
  ["delete-deployment --force", (cli) => cli.done("DELETE", `${DEP}?force=true`)],
  [
    "delete-stemcell",
    async (cli) => {
      await cli.done("DELETE", "/stemcells/ubuntu/1.10");
      expect(parsed(await cli.send("GET", "/stemcells"))).to.deep.equal([]);
    },
  ],
];
