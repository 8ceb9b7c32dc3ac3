import { Agent } from "node:https";
import { eventually, stemcellFile } from "@diskmesh/testkit";
import { expect } from "chai";
import { HttpClient } from "../../testing/http-client.js";
import { type HttpDirector, startHttpDirector } from "../../testing/http-director.js";
import { CLOUD_CONFIG } from "../../testing/test-director.js";
import { mayChange, type Route } from "../route.js";
import { allRoutes } from "./routes.js";

/**
 * ok: the request succeeds. again: the same request is repeated, and succeeds or reports that nothing is left to do.
 * wrong: an invalid request is refused with its reason.
 */
type Kind = "ok" | "again" | "wrong";
/** The HTTP status with BOSH's error code, if any, or the end state of the task. */
type Outcome = readonly [status: number, code?: number] | "done" | "error";
interface Row {
  readonly kind: Kind;
  readonly route: string;
  /** {names} in the path and in the body are replaced by known values when the request is sent. */
  readonly path: string;
  readonly body: string;
  readonly outcome: Outcome;
}

const rows: (Row | ((mesh: HttpDirector) => unknown))[] = [];
const known = new Map<string, string>();
/** Stores a field of a list's first object, for use as {name}. */
async function learn({ http }: HttpDirector, path: string, field: string): Promise<void> {
  const [found] = (await http.json(path)) as Readonly<Record<string, unknown>>[];
  known.set(field, String(found?.[field]));
}

function routeNamed(name: string): Route {
  const found = allRoutes.find(({ method, path }) => `${method} ${path}` === name);
  if (found === undefined) throw new Error(`there is no route ${name}`);
  return found;
}

/** Adds the rows of a route: success, repetition and refusals. */
function route(
  name: string,
  {
    at = name.split(" ")[1] ?? "",
    body = "",
    ok,
    again = ok,
    wrong = [],
  }: {
    readonly at?: string;
    readonly body?: string | object;
    readonly ok?: Outcome;
    /** The outcome of a second request; `ok` by default. */
    readonly again?: Outcome | "none" | undefined;
    readonly wrong?: readonly (readonly [at: string, body: string | object, outcome: Outcome])[];
  },
): void {
  const text = (value: string | object): string => (typeof value === "string" ? value : JSON.stringify(value));
  if (ok !== undefined) rows.push({ kind: "ok", route: name, path: at, body: text(body), outcome: ok });
  if (again !== undefined && again !== "none")
    rows.push({ kind: "again", route: name, path: at, body: text(body), outcome: again });
  for (const [path, content, outcome] of wrong)
    rows.push({ kind: "wrong", route: name, path: path || at, body: text(content), outcome });
}
const act = (work: (mesh: HttpDirector) => unknown): void => void rows.push(work);

const NEVER_WRONG = [
  ...["/disks", "/orphan_disks", "/stemcells", "/deployments", "/deployment_configs", "/runtime_configs"],
  ...["/locks", "/releases", "/networks", "/orphaned_vms", "/director/certificate_expiry", "/resurrection"],
  ...["/deployments/:deployment/variables", "/deployments/:deployment/errands", "/cleanup/dryrun"],
  "/deployments/:deployment/certificate_expiry",
].map((path) => `GET ${path}`);
/** Routes with a mutating verb that change nothing: they only read, or the table requests the present state. */
const CHANGE_NOTHING = [
  ...["/configs/diff", "/cloud_configs/diff", "/cpi_configs/diff", "/deployments/:deployment/diff"],
  ...["/stemcell_uploads", "/cloud_configs", "/tasks/cancel"],
].map((path) => `POST ${path}`);
/** BOSH reports a manifest's error in an answer of status 200. */
const TELLS_ITS_ERROR = "POST /deployments/:deployment/diff";
const GONE: Outcome = [404, 70_000];
const NO_JSON: Outcome = [400, 710_001];
const LACKING: Outcome = [400, 40_001];
const BAD_CONFIG: Outcome = [400, 440_010];
const BAD_VALUE: Outcome = [400, 40_005];
const NO_INSTANCE: Outcome = [404, 70_001];
const BAD_INDEX: Outcome = [400, 70_002];
const NOT_HERE: Outcome = [501, 100];
const none = (path: string, body: string | object = ""): readonly [string, string | object, Outcome] => [
  path,
  body,
  GONE,
];
const MANIFEST = "name: web\ninstance_groups:\n- {name: db, instances: 1, azs: [z1], persistent_disk: 100}\n";
const CPIS = "cpis: [{name: proc, type: proc, exec_path: /bin/true}]\n";
const mine = (name: string) => ({ type: "mine", name, content: "a: 1\n" });
const DB = "/deployments/web/jobs/db";
const ONE = "/deployments/web/instance_groups/db/0";

// Configs.
route("POST /configs", {
  body: { type: "cloud", name: "default", content: CLOUD_CONFIG },
  ok: [201],
  wrong: [
    ["", "[", NO_JSON],
    ["", {}, LACKING],
    ["", { type: "cloud", name: "default", content: "azs: 7" }, BAD_CONFIG],
    ["", { type: "runtime", name: "x", content: "a: 1" }, NOT_HERE],
    ["", { type: "resurrection", name: "x", content: "a: 1" }, BAD_CONFIG],
    ["", { ...mine("x"), expected_latest_id: "99" }, [412]],
  ],
});
route("POST /configs/diff", {
  body: mine("x"),
  ok: [200],
  wrong: [
    ["", "[]", NO_JSON],
    ["", { from: {}, to: {} }, LACKING],
  ],
});
route("GET /configs", { ok: [200], wrong: [["/configs?limit=x", "", BAD_VALUE]] });
route("GET /configs/:id", { at: "/configs/1", ok: [200], wrong: [["/configs/99", "", [404, 440_012]]] });
route("POST /cloud_configs", { body: CLOUD_CONFIG, ok: [201], wrong: [["", "azs: 7", BAD_CONFIG]] });
route("POST /cloud_configs/diff", { body: CLOUD_CONFIG, ok: [200], wrong: [["", "a: [", BAD_VALUE]] });
route("GET /cloud_configs", { ok: [200], wrong: [["/cloud_configs?name=..%2Fx", "", BAD_VALUE]] });
route("POST /cpi_configs", { body: CPIS, ok: [201], wrong: [["", "cpis: 7", BAD_CONFIG]] });
route("POST /cpi_configs/diff", { body: CPIS, ok: [200], wrong: [["", "a: [", BAD_VALUE]] });
route("GET /cpi_configs", { ok: [200], wrong: [["/cpi_configs?name=..%2Fx", "", BAD_VALUE]] });
route("DELETE /configs", {
  at: "/configs?type=cpi&name=default",
  ok: [204],
  again: [404, 440_012],
  wrong: [["/configs", "", BAD_VALUE]],
});
act((mesh) => mesh.http.send("POST", "/configs", { body: JSON.stringify(mine("y")) }));
act((mesh) => learn(mesh, "/configs?type=mine&latest=true", "id"));
route("DELETE /configs/:id", {
  at: "/configs/{id}",
  ok: [204],
  again: [404, 440_012],
  wrong: [["/configs/x", "", BAD_VALUE]],
});
route("GET /runtime_configs", { ok: [200] });
route("POST /runtime_configs", { wrong: [["", "addons: []", NOT_HERE]] });
route("POST /runtime_configs/diff", { wrong: [["", "addons: []", NOT_HERE]] });

// Stemcells.
const STEMCELL = "{a stemcell}";
const NO_STEMCELL = "{bytes of something else}";
const TOY = { stemcell: { name: "toy", version: "1" } };
route("POST /stemcell_uploads", { body: TOY, ok: [200], wrong: [["", "{}", LACKING]] });
route("POST /stemcells", {
  body: STEMCELL,
  ok: "done",
  wrong: [
    ["", NO_STEMCELL, [400, 50_000]],
    ["", "", BAD_VALUE],
  ],
});
route("GET /stemcells", { ok: [200] });

// Deployments.
route("POST /deployments", {
  body: MANIFEST,
  ok: "done",
  wrong: [
    ["", "name: [", [400, 440_001]],
    ["/deployments?recreate_persistent_disks=true", MANIFEST, NOT_HERE],
    ["/deployments?context=%7B%22cloud_config_ids%22%3A%5B99%5D%7D", MANIFEST, [409, 100]],
  ],
});
route("POST /deployments/:deployment/diff", { at: "/deployments/web/diff", body: MANIFEST, ok: [200] });
route("GET /deployments", { ok: [200] });
route("GET /deployments/:deployment", { at: "/deployments/web", ok: [200], wrong: [none("/deployments/none")] });
route("GET /deployment_configs", { at: "/deployment_configs?deployment[]=web", ok: [200] });
for (const what of ["vms", "instances"]) {
  const name = `GET /deployments/:deployment/${what}`;
  route(name, { at: `/deployments/web/${what}`, ok: [200], wrong: [none(`/deployments/none/${what}`)] });
  route(name, { at: `/deployments/web/${what}?format=full`, ok: "done" });
}
act((mesh) => learn(mesh, "/deployments/web/vms", "cid"));
act((mesh) => learn(mesh, "/deployments/web/instances", "id"));

// Instances.
route("PUT /deployments/:deployment/jobs/:group", {
  at: `${DB}?state=stopped`,
  ok: "done",
  wrong: [
    none("/deployments/none/jobs/db?state=stopped"),
    [`${DB}?state=odd`, "", BAD_VALUE],
    [`${DB}?state=started&force=true`, "", NOT_HERE],
    [`${DB}?state=started&canaries=x`, "", BAD_VALUE],
  ],
});
route("PUT /deployments/:deployment/jobs/:group/:instance", {
  at: `${DB}/0?state=started`,
  ok: "done",
  wrong: [
    [`${DB}/9?state=started`, "", NO_INSTANCE],
    [`${DB}/nine?state=started`, "", BAD_INDEX],
    none("/deployments/none/jobs/db/0?state=started"),
  ],
});
for (const verb of ["stop", "start", "restart", "recreate"])
  route(`POST /deployments/:deployment/instance_groups/:group/:instance/actions/${verb}`, {
    at: `${ONE}/actions/${verb}`,
    ok: "done",
    wrong: [
      none(`${ONE.replace("web", "none")}/actions/${verb}`),
      [`${ONE.replace("0", "9")}/actions/${verb}`, "", NO_INSTANCE],
      [`${ONE.replace("0", "nine")}/actions/${verb}`, "", BAD_INDEX],
    ],
  });
for (const ignore of [true, false])
  route("PUT /deployments/:deployment/instance_groups/:group/:instance/ignore", {
    at: `${ONE}/ignore`,
    body: { ignore },
    ok: [200],
    wrong: [["", "{}", LACKING], none(`${ONE.replace("web", "none")}/ignore`, { ignore })],
  });

// Logs.
route("GET /deployments/:deployment/jobs/:group/:instance/logs", {
  at: `${DB}/0/logs?type=job`,
  ok: "done",
  wrong: [
    [`${DB}/0/logs?type=odd`, "", BAD_VALUE],
    [`${DB}/0/logs?filters=..%2Fx`, "", BAD_VALUE],
    [`${DB}/9/logs`, "", NO_INSTANCE],
    none("/deployments/none/jobs/*/*/logs?type=job"),
  ],
});
act(async (mesh) => known.set("logs", (await mesh.http.task("GET", `${DB}/*/logs`)).task.result ?? ""));
route("GET /resources/:id", {
  at: "/resources/{logs}",
  ok: [200],
  wrong: [
    ["/resources/1", "", [404, 100]],
    ["/resources/99999", "", [404, 10_000]],
    ["/resources/..%2Fx", "", [404, 10_000]],
  ],
});

// Snapshots.
route("POST /deployments/:deployment/snapshots", {
  at: "/deployments/web/snapshots",
  ok: "done",
  wrong: [["/deployments/none/snapshots", "", "error"]],
});
route("POST /deployments/:deployment/jobs/:group/:instance/snapshots", {
  at: `${DB}/0/snapshots`,
  ok: "done",
  wrong: [[`${DB}/9/snapshots`, "", NO_INSTANCE]],
});
route("GET /deployments/:deployment/snapshots", {
  at: "/deployments/web/snapshots",
  ok: [200],
  wrong: [["/deployments/..%2Fx/snapshots", "", BAD_VALUE]],
});
act((mesh) => learn(mesh, "/deployments/web/snapshots", "snapshot_cid"));
route("DELETE /deployments/:deployment/snapshots/:cid", {
  at: "/deployments/web/snapshots/{snapshot_cid}",
  ok: "done",
  again: "error",
  wrong: [["/deployments/..%2Fx/snapshots/c", "", BAD_VALUE]],
});
route("DELETE /deployments/:deployment/snapshots", {
  at: "/deployments/web/snapshots",
  ok: "done",
  wrong: [["/deployments/..%2Fx/snapshots", "", BAD_VALUE]],
});

// Orphaned objects.
act(async (mesh) => {
  await learn(mesh, "/deployments/web/vms", "cid");
  mesh.director.cpi.vms.delete(known.get("cid") ?? "");
  for (const disk of mesh.director.cpi.disks.values()) disk.vmCid = "";
});
route("POST /deployments/:deployment/scans", {
  at: "/deployments/web/scans",
  ok: "done",
  wrong: [none("/deployments/none/scans")],
});
route("GET /deployments/:deployment/problems", {
  at: "/deployments/web/problems",
  ok: [200],
  wrong: [none("/deployments/none/problems")],
});
act((mesh) => learn(mesh, "/deployments/web/problems", "id"));
route("PUT /deployments/:deployment/problems", {
  at: "/deployments/web/problems",
  body: '{"resolutions":{"{id}":null}}',
  ok: "done",
  again: [404, 100],
  wrong: [
    ["", '{"resolutions":{"x":"ignore"}}', BAD_VALUE],
    ["", '{"resolutions":{},"max_in_flight_overrides":{"db":"1"}}', NOT_HERE],
  ],
});

// Disks of instances.
act((mesh) => mesh.http.task("PUT", `${DB}?state=stopped`));
act(async (mesh) => {
  await learn(mesh, "/deployments/web/instances", "id");
  const { disks } = await mesh.director.deployments.listPersistentDisks({ deployment: "web" });
  known.set("disk_cid", disks[0]?.diskCid ?? "");
});
route("DELETE /disks/:cid", {
  at: "/disks/{disk_cid}?orphan=true",
  ok: "done",
  wrong: [["/disks/%2Fx", "", BAD_VALUE]],
});
for (const path of ["/disks", "/orphan_disks"]) route(`GET ${path}`, { ok: [200] });
route("PUT /disks/:cid/attachments", {
  at: "/disks/{disk_cid}/attachments?deployment=web&job=db&instance_id={id}",
  ok: "done",
  wrong: [
    ["/disks/d/attachments?instance_id={id}&disk_properties=copy", "", NOT_HERE],
    ["/disks/disk-none/attachments?instance_id={id}", "", "error"],
    ["/disks/d/attachments?instance_id=..%2F", "", BAD_VALUE],
  ],
});
route("DELETE /disks/:cid", { at: "/disks/disk-none", ok: "done", wrong: [["/disks/{disk_cid}", "", [400, 520_000]]] });
act((mesh) => mesh.http.task("DELETE", `/disks/${known.get("disk_cid")}?orphan=true`));
route("DELETE /orphan_disks/:cid", {
  at: "/orphan_disks/{disk_cid}",
  ok: "done",
  wrong: [["/orphan_disks/%2Fx", "", BAD_VALUE]],
});
act((mesh) => mesh.http.task("PUT", `${DB}?state=started`));

// Dynamic disks.
const WISH = { disk_name: "a", disk_pool_name: "fast", disk_size: 5 };
const wish = { ...WISH, instance_id: "{id}" };
route("POST /dynamic_disks/provide", {
  body: wish,
  ok: "done",
  wrong: [
    ["", { ...wish, disk_size: "5" }, [400, 40_000]],
    ["", { ...wish, disk_size: 0 }, [400, 40_002]],
    ["", { ...wish, disk_name: "../a" }, BAD_VALUE],
    ["", { ...wish, instance_id: "none" }, "error"],
  ],
});
route("POST /dynamic_disks/:name/detach", {
  at: "/dynamic_disks/a/detach",
  ok: "done",
  wrong: [
    ["/dynamic_disks/none/detach", "", "error"],
    ["/dynamic_disks/..%2Fa/detach", "", BAD_VALUE],
  ],
});
route("POST /dynamic_disks/:name/undelete", {
  at: "/dynamic_disks/a/undelete",
  body: {},
  ok: "done",
  wrong: [
    ["/dynamic_disks/none/undelete", {}, "error"],
    ["/dynamic_disks/..%2Fa/undelete", {}, BAD_VALUE],
    ["", { disk_cid: {} }, [400, 40_000]],
  ],
});
route("POST /dynamic_disks/:name/resize", {
  at: "/dynamic_disks/a/resize",
  body: { disk_size: 6 },
  ok: "done",
  wrong: [
    ["", "{}", LACKING],
    ["", { disk_size: 5 }, "error"],
    ["/dynamic_disks/none/resize", { disk_size: 6 }, "error"],
  ],
});
route("POST /dynamic_disks/:name/limits", {
  at: "/dynamic_disks/a/limits",
  body: { limits: { read_iops: 100, burst_seconds: 2 } },
  ok: "done",
  wrong: [
    ["", { limits: { read_iops: -1 } }, BAD_VALUE],
    ["", { limits: { read_bytes_per_second: 50 } }, BAD_VALUE],
    ["", { limits: { iops: 1 } }, BAD_VALUE],
    ["/dynamic_disks/none/limits", {}, "error"],
  ],
});
route("GET /dynamic_disks/capacity", {
  at: "/dynamic_disks/capacity?az=z1&disk_pool_name=fast",
  ok: [200],
  wrong: [["/dynamic_disks/capacity?disk_pool_name=fast", "", BAD_VALUE]],
});
route("POST /dynamic_disks/:name/attach", {
  at: "/dynamic_disks/a/attach",
  body: { instance_id: "{id}" },
  ok: "done",
  wrong: [
    ["", "{}", LACKING],
    ["/dynamic_disks/none/attach", { instance_id: "{id}" }, "error"],
  ],
});
route("POST /dynamic_disks", {
  body: { ...WISH, disk_name: "b", deployment_name: "web", az: "z1" },
  ok: "done",
  wrong: [
    ["", WISH, LACKING],
    ["", { ...WISH, disk_name: "c", deployment_name: "none", az: "z1" }, "error"],
  ],
});
route("GET /dynamic_disks", { ok: [200], wrong: [["/dynamic_disks?deployment=..%2Fx", "", BAD_VALUE]] });
act((mesh) => mesh.http.task("POST", "/dynamic_disks/a/detach"));
for (const name of ["a", "b"])
  route("DELETE /dynamic_disks/:name", {
    at: `/dynamic_disks/${name}`,
    ok: "done",
    wrong: [["/dynamic_disks/..%2Fa", "", BAD_VALUE]],
  });

// VMs, clean-up, resurrection and events.
act((mesh) => learn(mesh, "/deployments/web/vms", "cid"));
route("DELETE /vms/:cid", { at: "/vms/{cid}", ok: "done", wrong: [["/vms/%2Fx", "", BAD_VALUE]] });
route("POST /cleanup", {
  body: { config: { remove_all: false, keep_orphaned_disks: true } },
  ok: "done",
  wrong: [
    ["", "{}", LACKING],
    ["", "[", NO_JSON],
  ],
});
route("GET /cleanup/dryrun", { ok: [200] });
route("PUT /resurrection", { body: { resurrection_paused: true }, ok: [204], wrong: [["", "{}", LACKING]] });
route("GET /resurrection", { ok: [200] });
route("GET /events", {
  ok: [200],
  wrong: [
    ["/events?before_id=x", "", BAD_VALUE],
    ["/events?after_time=never", "", BAD_VALUE],
  ],
});
route("GET /events/:id", { at: "/events/1", ok: [200], wrong: [["/events/999999", "", [404, 100]]] });
for (const path of ["/locks", "/releases", "/networks", "/orphaned_vms", "/director/certificate_expiry"])
  route(`GET ${path}`, { ok: [200] });
for (const what of ["variables", "errands", "certificate_expiry"])
  route(`GET /deployments/:deployment/${what}`, { at: `/deployments/web/${what}`, ok: [200] });
for (const name of [
  "POST /releases",
  "POST /releases/export",
  "DELETE /releases/:name",
  "POST /packages/matches",
  "POST /deployments/:deployment/errands/:name/runs",
  "POST /deployments/:deployment/ssh",
])
  route(name, { wrong: [[(name.split(" ")[1] ?? "").replace(/:[a-z]+/g, "web"), "", NOT_HERE]] });

// Tasks.
route("GET /tasks", {
  ok: [200],
  wrong: [
    ["/tasks?limit=-1", "", BAD_VALUE],
    ["/tasks?state=odd", "", BAD_VALUE],
  ],
});
route("GET /tasks/:id", { at: "/tasks/1", ok: [200], wrong: [["/tasks/99999", "", [404, 10_000]]] });
route("GET /tasks/:id/output", {
  at: "/tasks/1/output?type=event",
  ok: [200],
  wrong: [
    ["/tasks/1/output?type=odd", "", BAD_VALUE],
    ["/tasks/99999/output", "", [404, 10_000]],
  ],
});
let release = (): void => {};
act(async (mesh) => {
  const gate = mesh.director.cpi.gate("createVm", "before");
  release = () => gate.release();
  const started = await mesh.http.send("POST", "/deployments", { body: MANIFEST });
  await gate.reached;
  known.set("task", started.headers.location?.split("/").at(-1) ?? "");
});
route("DELETE /task/:id", {
  at: "/task/{task}",
  ok: [204],
  again: "none",
  wrong: [["/task/99999", "", [404, 10_000]]],
});
act((mesh) => mesh.director.ended(Number(known.get("task"))));
// A running task would answer 204.
route("DELETE /task/:id", { at: "/task/{task}", again: [400] });
route("POST /tasks/cancel", {
  body: "{}",
  ok: [204],
  wrong: [
    ["", { states: ["done"] }, BAD_VALUE],
    ["", "[", NO_JSON],
  ],
});

// Deletion of the deployment.
act((mesh) => {
  release();
  return mesh.director.ended(Number(known.get("task")));
});
route("DELETE /deployments/:deployment", {
  at: "/deployments/web",
  ok: "done",
  wrong: [
    ["/deployments/..%2Fx", "", BAD_VALUE],
    ["/deployments/web?keep_snapshots=true", "", NOT_HERE],
  ],
});
route("DELETE /stemcells/:name/:version", {
  at: "/stemcells/toy/1",
  ok: "done",
  again: [404, 50_003],
  wrong: [["/stemcells/x/1", "", [404, 50_003]]],
});

describe("the table of routes over HTTPS", () => {
  let mesh: HttpDirector;
  let http: HttpClient;
  const bytes = new Map<string, Buffer>([[NO_STEMCELL, Buffer.from("no tgz")]]);
  // Reuses a connection, because a handshake per request would dominate the test's time.
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });

  before(async () => {
    mesh = await startHttpDirector();
    http = new HttpClient(mesh.director.certs, mesh.http.port, mesh.http.login, "127.0.0.1", agent);
    bytes.set(STEMCELL, await stemcellFile({ name: "toy", version: "1" }));
  });
  after(async () => {
    agent.destroy();
    await mesh?.director.stop();
  });

  it("every route has a success, a repetition and an error in the table, where they exist", () => {
    const names = allRoutes.map(({ method, path }) => `${method} ${path}`).filter((name) => !hasOwnTests(name));
    const has = (name: string, kind: Kind) =>
      rows.some((row) => "kind" in row && row.route === name && row.kind === kind);
    const without = (kind: Kind) => names.filter((name) => !has(name, kind));
    expect(rows.flatMap((row) => ("kind" in row && !names.includes(row.route) ? [row.route] : []))).to.deep.equal([]);
    // Routes in NEVER_WRONG return an empty or complete list for every request.
    expect(without("wrong").filter((name) => !NEVER_WRONG.includes(name) && name !== TELLS_ITS_ERROR)).to.deep.equal(
      [],
    );
    // Routes that this director always refuses.
    const refused = rows.filter((row): row is Row => "kind" in row && row.outcome === NOT_HERE).map((row) => row.route);
    expect(without("ok").filter((name) => !refused.includes(name))).to.deep.equal([]);
    expect(without("again").filter((name) => !refused.includes(name))).to.deep.equal([]);
  });

  for (const row of rows) {
    if (typeof row === "function") {
      it("(actions between the rows)", async () => void (await row(mesh)));
      continue;
    }
    it(`${row.route}, ${row.kind}: ${row.path} -> ${row.outcome}`, async () => {
      const told = (text: string): string => text.replace(/\{(\w+)\}/g, (all, name) => known.get(name) ?? all);
      const method = row.route.split(" ")[0] ?? "";
      const body = bytes.get(row.body) ?? told(row.body);
      const requestId = `row-${rows.indexOf(row)}`;
      const answer = await http.send(method, told(row.path), { body, headers: { "x-request-id": requestId } });
      if (mayChange(routeNamed(row.route))) await expectTold(row, requestId, answer.status);
      if (typeof row.outcome !== "string") {
        expect(answer.status, answer.body).to.equal(row.outcome[0]);
        if (row.outcome[1] !== undefined) expect(JSON.parse(answer.body)).to.include({ code: row.outcome[1] });
        return;
      }
      expect(answer.status, answer.body).to.equal(302);
      const { state, result } = await mesh.director.ended(Number(answer.headers.location?.split("/").at(-1)));
      expect(state, result).to.equal(row.outcome === "done" ? "TASK_STATE_DONE" : "TASK_STATE_ERROR");
    });
  }

  /**
   * Expects one audit line for a request that may change something, and an event if the request was done or refused.
   */
  async function expectTold(row: Row, requestId: string, status: number): Promise<void> {
    const lines = await eventually(() => {
      const found = mesh.director.process.logs
        .split("\n")
        .filter((line) => line.includes(`"requestId":"${requestId}"`));
      const told = found.filter((line) => line.includes('"audit":"'));
      expect(told, row.route).not.to.deep.equal([]);
      return told;
    });
    expect(lines.length, lines.join("\n")).to.equal(1);
    const line = JSON.parse(lines[0] ?? "") as Readonly<Record<string, unknown>>;
    expect(line).to.include({ route: row.route.split(" ")[1], status, login: "admin", authentication: "password" });
    if (row.kind !== "ok" || CHANGE_NOTHING.includes(row.route)) return;
    await eventually(async () => {
      const events = (await http.json(`/events?request_id=${requestId}`)) as Readonly<Record<string, unknown>>[];
      const of = events.filter(({ request_id }) => request_id === requestId);
      expect(of, row.route).not.to.deep.equal([]);
      for (const event of of) expect(event).to.include({ user: "admin", authentication: "password" });
    });
  }

  /** Routes of Ironic, of links to vendors' methods and of the page have tests of their own. */
  function hasOwnTests(name: string): boolean {
    return / \/($|(v1|vendor_method|page)\b)/.test(name);
  }
});
