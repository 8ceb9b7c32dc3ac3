import {
  DeploymentServiceDefinition,
  type DynamicDisk,
  DynamicDiskServiceDefinition,
  TaskOutputType,
  TaskServiceDefinition,
} from "@diskmesh/api/director";
import { ErrorInfo } from "@diskmesh/api/google-rpc";
import { DomainError, type Identity, NotFoundError, PermissionDeniedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { type Client, createClient } from "@diskmesh/rpc";
import { anotherCertificate } from "@diskmesh/testkit";
import { expect } from "chai";
import { allRoutes } from "./http/routes/routes.js";
import { HttpClient } from "./testing/http-client.js";
import { type HttpDirector, httpUsers, startHttpDirector } from "./testing/http-director.js";
import { CLOUD_CONFIG, manifest } from "./testing/test-director.js";

const MIB = 1024 * 1024;

/** The disk and the place that a request names. */
interface Named {
  readonly diskName: string;
  readonly diskCid: string;
  readonly instanceId: string;
  readonly deployment: string;
}

interface Caller {
  readonly disks: Client<typeof DynamicDiskServiceDefinition>;
  readonly tasks: Client<typeof TaskServiceDefinition>;
  readonly deployments: Client<typeof DeploymentServiceDefinition>;
}

type Rpc = keyof typeof DynamicDiskServiceDefinition.methods;

const WISH = { diskPoolName: "fast", sizeBytes: 64 * MIB, wait: true };
const BODY = { disk_pool_name: "fast", disk_size: 64 };

/** Requests of each RPC of dynamic disks. */
const RPCS: { readonly [Name in Rpc]: (named: Named) => readonly object[] } = {
  provideDynamicDisk: ({ diskName, instanceId }) => [{ ...WISH, diskName, instanceId }],
  createDynamicDisk: ({ diskName, deployment }) => [{ ...WISH, diskName, deployment, az: "z1" }],
  resizeDynamicDisk: ({ diskName }) => [{ diskName, sizeBytes: 128 * MIB, wait: true }],
  setDynamicDiskLimits: ({ diskName }) => [{ diskName, wait: true }],
  getDynamicDiskCapacity: () => [{ az: "z1", diskPoolName: "fast" }],
  attachDynamicDisk: ({ diskName, instanceId }) => [{ diskName, instanceId, wait: true }],
  detachDynamicDisk: ({ diskName }) => [{ diskName, wait: true }],
  deleteDynamicDisk: ({ diskName }) => [{ diskName, wait: true }],
  undeleteDynamicDisk: ({ diskName }) => [{ diskName, wait: true }],
  getDynamicDisk: ({ diskName }) => [{ diskName }],
  listDynamicDisks: ({ deployment, instanceId }) => [{}, { pageSize: 1 }, { deployment }, { instanceId }],
  listOwedRemovals: () => [{}],
  reportCsiDriver: () => [{ driver: "node:/csi.sock", startId: "1" }],
};

/** The path and body of each route of dynamic disks. */
const ROUTES: Readonly<Record<string, (named: Named) => readonly [path: string, body?: object]>> = {
  "GET /dynamic_disks": ({ deployment }) => [`/dynamic_disks?deployment=${deployment}`],
  "POST /dynamic_disks": ({ diskName, deployment }) => [
    "/dynamic_disks",
    { ...BODY, disk_name: diskName, deployment_name: deployment, az: "z1" },
  ],
  "POST /dynamic_disks/provide": ({ diskName, instanceId }) => [
    "/dynamic_disks/provide",
    { ...BODY, disk_name: diskName, instance_id: instanceId },
  ],
  "POST /dynamic_disks/:name/attach": ({ diskName, instanceId }) => [
    `/dynamic_disks/${diskName}/attach`,
    { instance_id: instanceId },
  ],
  "POST /dynamic_disks/:name/resize": ({ diskName }) => [`/dynamic_disks/${diskName}/resize`, { disk_size: 128 }],
  "POST /dynamic_disks/:name/limits": ({ diskName }) => [`/dynamic_disks/${diskName}/limits`, {}],
  "GET /dynamic_disks/capacity": () => ["/dynamic_disks/capacity?az=z1&disk_pool_name=fast"],
  "POST /dynamic_disks/:name/detach": ({ diskName }) => [`/dynamic_disks/${diskName}/detach`],
  "DELETE /dynamic_disks/:name": ({ diskCid }) => [`/dynamic_disks/${diskCid}`],
  "POST /dynamic_disks/:name/undelete": ({ diskName }) => [`/dynamic_disks/${diskName}/undelete`, {}],
};

const LOGINS = {
  a: ["bosh.teams.a.admin"],
  "a-disks": ["create", "attach", "detach", "delete", "list"].map((right) => `bosh.teams.a.dynamic-disks.${right}`),
  b: ["bosh.teams.b.admin"],
  admin: ["bosh.admin"],
};
type Login = keyof typeof LOGINS;

const CERTIFICATES: Readonly<Record<string, Identity>> = {
  "csi/own": { role: "csi", name: "own" },
  "operator-disks/a": { role: "operator-disks", name: "a" },
};

/** Deployments by the login that deploys them. The last two are outside of every scope under test. */
const DEPLOYMENTS = [
  ["a", "own"],
  ["admin", "alpha"],
  ["b", "beta"],
] as const;
const OUTSIDE = ["alpha", "beta"] as const;

/** Disks that are made once, and that no test changes. */
const KINDS = ["attached", "detached"] as const;

/** Sends the request of a row; the answer includes the ended task. */
type Send = (named: Named) => Promise<string>;

describe("scopes of dynamic disks", () => {
  let mesh: HttpDirector;
  const callers = new Map<string, Caller>();
  const instances = new Map<string, string>();
  const disks = new Map<string, Named>();
  let nextName = 0;

  before(async () => {
    mesh = await startHttpDirector({ users: await httpUsers(LOGINS) });
    const { director } = mesh;
    await director.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
    for (const [login, deployment] of DEPLOYMENTS) {
      const { task } = await as(login).task("POST", "/deployments", { body: manifest(deployment, 1) });
      expect(task.state, task.result ?? "").to.equal("done");
      const { instances: all } = await director.deployments.listInstances({ deployment });
      instances.set(deployment, all[0]?.instanceId ?? "");
      for (const kind of KINDS)
        disks.set(`${deployment} ${kind}`, await made(deployment, `${deployment}-${kind}`, kind));
    }
    for (const [who, identity] of Object.entries(CERTIFICATES)) {
      const name = who.replace("/", "-");
      const holder = { identity, commonName: name, usages: ["client"] as const };
      const tls = await anotherCertificate(director.certs.folder, name, holder);
      const options = { address: director.address, tls, serverRole: "director", defaultDeadlineMs: 60_000 } as const;
      callers.set(who, {
        disks: createClient(DynamicDiskServiceDefinition, options),
        tasks: createClient(TaskServiceDefinition, options),
        deployments: createClient(DeploymentServiceDefinition, options),
      });
    }
  });
  after(async () => {
    for (const { disks, tasks, deployments } of callers.values())
      for (const client of [disks, tasks, deployments]) client.close();
    await mesh?.director.stop();
  });

  const as = (login: Login): HttpClient => new HttpClient(mesh.director.certs, mesh.http.port, `${login}:pw-${login}`);
  const all = async (): Promise<readonly DynamicDisk[]> => (await mesh.director.disks.listDynamicDisks({})).disks;
  const known = (deployment: string, kind: (typeof KINDS)[number]) => disks.get(`${deployment} ${kind}`) as Named;

  async function made(deployment: string, diskName: string, kind: (typeof KINDS)[number]): Promise<Named> {
    const { director } = mesh;
    const instanceId = instances.get(deployment) ?? "";
    expect((await director.provide(diskName, instanceId)).state).to.equal("TASK_STATE_DONE");
    if (kind === "detached") await director.detach(diskName);
    const { disk } = await director.disks.getDynamicDisk({ diskName });
    return { diskName, diskCid: disk?.diskCid ?? "", instanceId, deployment };
  }

  /** Calls `work` with an own disk, which is gone afterwards. */
  async function withOwnDisk(kind: (typeof KINDS)[number], work: (named: Named) => Promise<void>): Promise<void> {
    const named = await made("own", `own-${++nextName}`, kind);
    await work(named);
    await mesh.director.detach(named.diskName);
    await mesh.director.delete(named.diskName);
  }

  /** Returns a disk and a place that do not exist. */
  function nothing(): Named {
    const unknown = `unknown-${++nextName}`;
    return { diskName: unknown, diskCid: unknown, instanceId: unknown, deployment: unknown };
  }

  /** Returns everything that names the deployment, its instances or its disks. */
  async function wordsOf(deployment: string): Promise<readonly string[]> {
    const ofDisks = (await all()).filter((disk) => disk.deployment === deployment);
    const { instances: some } = await mesh.director.deployments.listInstances({ deployment });
    return [
      deployment,
      ...ofDisks.flatMap(({ diskName, diskCid, vmCid, attachmentId }) => [diskName, diskCid, vmCid, attachmentId]),
      ...some.flatMap(({ instanceId, vmCid, agentId }) => [instanceId, vmCid, agentId]),
    ].filter((word) => word !== "");
  }

  /** Replaces what the request named, and what differs between any two tasks. */
  function withoutNames(answer: string, { diskCid, diskName, instanceId, deployment }: Named): string {
    let text = answer;
    for (const word of [diskCid, diskName, instanceId, deployment]) text = text.replaceAll(word, "NAMED");
    return text.replace(/"(taskId|id|timestamp|started_at)":\d+|tasks\/\d+|"\d{4}-[^"]*Z"/g, "");
  }

  /** Expects an answer without a word of the deployment other than those in the request, and that nothing changes. */
  async function answerOf(send: Send, named: Named, request: string, deployment: string): Promise<string> {
    const before = await all();
    mesh.director.cpi.calls.length = 0;
    const answer = await send(named);
    const said = (await wordsOf(deployment)).filter((word) => !request.includes(word));
    for (const word of said) expect(answer).not.to.match(new RegExp(`(?<![\\w-])${word}(?![\\w-])`));
    expect(await all()).to.deep.equal(before);
    expect(mesh.director.cpi.calls).to.deep.equal([]);
    return withoutNames(answer, named);
  }

  /** Tests that things outside of the caller's scope are answered like things that do not exist. */
  function hides(what: string, send: () => Send, requestOf: (named: Named) => unknown): void {
    const textOf = (named: Named): string => JSON.stringify(requestOf(named));
    const sample = textOf({
      diskName: "the-disk",
      diskCid: "the-disk",
      instanceId: "the-place",
      deployment: "the-place",
    });
    const hasBoth = sample.includes("the-disk") && sample.includes("the-place");
    for (const deployment of OUTSIDE) {
      for (const kind of KINDS)
        it(`${what}: ${kind} disk of ${deployment} -> as for none`, async () => {
          const named = known(deployment, kind);
          const none = nothing();
          const answer = await answerOf(send(), named, textOf(named), deployment);
          expect(answer).to.equal(withoutNames(await send()(none), none));
        });
      if (!hasBoth) continue;
      it(`${what}: own disk at ${deployment} -> as for none`, async () => {
        const own = known("own", "detached");
        const { instanceId, deployment: place } = known(deployment, "detached");
        const [named, none] = [{ ...own, instanceId, deployment: place }, nothing()];
        const at = { ...own, instanceId: none.instanceId, deployment: none.deployment };
        const answer = await answerOf(send(), named, textOf(named), deployment);
        expect(answer).to.equal(withoutNames(await send()(at), at));
      });
      it(`${what}: disk of ${deployment} at an own place -> as for none; only that a name is taken is said`, async () => {
        const { instanceId, deployment: place } = known("own", "detached");
        const named = { ...known(deployment, "detached"), instanceId, deployment: place };
        const answer = await answerOf(send(), named, textOf(named), deployment);
        if (!/attach/i.test(what)) {
          const text = "disk `NAMED` cannot be created: its name is taken; choose another name";
          return void expect(answer).to.include(text);
        }
        const none = { ...nothing(), instanceId, deployment: place };
        expect(answer).to.equal(withoutNames(await send()(none), none));
      });
    }
  }

  describe("over gRPC", () => {
    it("every RPC has a row", () => {
      expect(Object.keys(RPCS)).to.have.members(Object.keys(DynamicDiskServiceDefinition.methods));
    });

    for (const rpc of Object.keys(RPCS) as Rpc[])
      for (const who of Object.keys(CERTIFICATES)) {
        const send: Send = async (named) => {
          const answers: unknown[] = [];
          const { disks } = callers.get(who) as Caller;
          const call = disks[rpc].bind(disks) as (request: object) => Promise<unknown>;
          for (const request of RPCS[rpc](named)) answers.push(await call(request).catch(answerOfError));
          return JSON.stringify(answers, shown);
        };
        hides(`${rpc} by ${who}`, () => send, RPCS[rpc]);

        it(`${rpc} by ${who}: own -> as without a scope`, () =>
          withOwnDisk(/^(delete|attach|resize)/.test(rpc) ? "detached" : "attached", async (named) => {
            const answer = await send(named);
            const isRefused = rpc === "reportCsiDriver" && !who.startsWith("csi");
            if (rpc === "listOwedRemovals" || isRefused) expect(answer).to.include("PERMISSION_DENIED");
            else if (rpc === "reportCsiDriver") expect(answer).to.equal("[{}]");
            else if (rpc === "getDynamicDiskCapacity") expect(answer).to.include("totalBytes");
            else if (/^(get|list)/.test(rpc)) expect(answer).to.include(named.diskCid);
            else expect(answer).to.include("TASK_STATE_DONE").and.to.include('"deployment":"own"');
          }));
      }
  });

  describe("over HTTPS", () => {
    it("every route has a row", () => {
      const routes = allRoutes.map(({ method, path }) => `${method} ${path}`);
      expect(Object.keys(ROUTES)).to.have.members(routes.filter((name) => name.includes("/dynamic_disks")));
    });

    for (const [name, requestOf] of Object.entries(ROUTES))
      for (const login of ["a", "a-disks"] as const) {
        const send: Send = async (named) => {
          const [path, body] = requestOf(named);
          const request = body === undefined ? {} : { body: JSON.stringify(body) };
          const answer = await as(login).send(name.split(" ")[0] ?? "", path, request);
          const { location } = answer.headers;
          if (answer.status !== 302 || location === undefined) return `${answer.status} ${answer.body}`;
          await mesh.director.ended(Number(location.split("/").at(-1)));
          const read = async (part: string) => (await as(login).send("GET", `${location}${part}`)).body;
          return [await read(""), await read("/output?type=result")].join(" ");
        };
        hides(`${name} by ${login}`, () => send, requestOf);

        it(`${name} by ${login}: own -> as without a scope`, () =>
          withOwnDisk(
            /^DELETE|attach$|resize$/.test(name) && !name.endsWith("detach") ? "detached" : "attached",
            async (named) => {
              const answer = await send(named);
              if (name.endsWith("capacity")) expect(answer).to.include("total_bytes");
              else expect(answer).to.include(name.startsWith("GET") ? named.diskCid : '"state":"done"');
            },
          ));
      }
  });

  describe("beside disks", () => {
    const team = () => callers.get("operator-disks/a") as Caller;

    it("tasks -> those of the team's deployments and the caller's own; others are answered like none", async () => {
      const { taskId: ofBeta = 0 } = (await mesh.director.tasks.listTasks({ deployment: "beta" })).tasks[0] ?? {};
      const { taskId: ofOwn = 0 } = (await mesh.director.tasks.listTasks({ deployment: "own" })).tasks[0] ?? {};
      const { task } = await team()
        .disks.getDynamicDisk({ diskName: known("beta", "attached").diskName })
        .then(
          () => expect.fail(),
          () => team().disks.deleteDynamicDisk({ diskName: known("beta", "attached").diskName, wait: true }),
        );
      const { tasks } = team();
      const reads: ((taskId: number) => Promise<unknown>)[] = [
        (taskId) => tasks.getTask({ taskId }),
        (taskId) => tasks.getTaskOutput({ taskId, type: TaskOutputType.RESULT }),
        async (taskId) => {
          for await (const update of tasks.watchTask({ taskId })) return update;
          return undefined;
        },
      ];
      for (const read of reads) {
        await read(ofOwn);
        await read(task?.taskId ?? 0);
        const told = async (taskId: number) =>
          (await rejection(read(taskId), NotFoundError)).message.replace(String(taskId), "ID");
        expect(await told(ofBeta)).to.equal(await told(999_999));
      }
      const { tasks: listed } = await tasks.listTasks({ pageSize: 1_000 });
      expect(listed.map(({ taskId }) => taskId)).to.include.members([ofOwn, task?.taskId]);
      for (const { user, deployment } of listed)
        expect(user === "operator-disks/a" || deployment === "own", `${user} ${deployment}`).to.equal(true);
      await rejection(tasks.getTaskOutput({ taskId: ofOwn, type: TaskOutputType.DEBUG }), PermissionDeniedError);
    });

    it("instances and deployments -> those of the team", async () => {
      const { deployments } = team();
      expect((await deployments.listDeployments({})).deployments.map(({ name }) => name)).to.deep.equal(["own"]);
      expect((await deployments.listInstances({ deployment: "own" })).instances).to.have.length(1);
      const told = async (deployment: string) =>
        (await rejection(deployments.listInstances({ deployment }), NotFoundError)).message.replace(
          deployment,
          "NAMED",
        );
      for (const deployment of OUTSIDE) expect(await told(deployment)).to.equal(await told("none"));
    });

    it("a request outside of the scope -> leaves no task or event with those whom it was about", async () => {
      const seen = async () => [await as("b").json("/tasks?verbose=2&limit=1000"), await as("b").json("/events")];
      const before = await seen();
      const { diskName, instanceId } = known("beta", "detached");
      for (const { disks } of callers.values()) {
        await disks.createDynamicDisk({ ...WISH, diskName, deployment: "beta", az: "z1" });
        await disks.attachDynamicDisk({ diskName, instanceId, wait: true });
        await disks.deleteDynamicDisk({ diskName, wait: true });
      }
      expect(await seen()).to.deep.equal(before);
    });

    it("a host that runs a VM outside of the scope -> as for none; that of an own VM, or of none, is used", async () => {
      const { director } = mesh;
      const own = (callers.get("csi/own") as Caller).disks;
      const hostOf = async (deployment: string): Promise<string> => {
        const { instances: some } = await director.deployments.listInstances({ deployment });
        const hostId = some[0]?.agentId ?? "";
        director.cpi.addHost(hostId, "z1");
        return hostId;
      };
      const resultOf = async (hostId: string) =>
        (await own.provideDynamicDisk({ diskName: "hosted", hostId, sizeBytes: MIB, wait: true })).task?.result;
      for (const deployment of OUTSIDE) {
        const hostId = await hostOf(deployment);
        const before = await all();
        expect((await resultOf(hostId))?.replace(hostId, "none")).to.equal(await resultOf("none"));
        const near = { diskName: "hosted", hostId, sizeBytes: MIB, wait: true };
        expect((await own.createDynamicDisk(near)).task?.result).to.equal(
          `host \`${hostId}\` not found: no CPI has it; \`diskmesh hosts\` lists hosts`,
        );
        expect(await all()).to.deep.equal(before);
      }
      director.cpi.addHost("free", "z1");
      for (const hostId of [await hostOf("own"), "free"]) {
        expect(await resultOf(hostId)).to.include(`attached disk \`hosted\` to host \`${hostId}\``);
        await own.detachDynamicDisk({ diskName: "hosted", wait: true });
      }
      await own.deleteDynamicDisk({ diskName: "hosted", wait: true });
    });

    it("a disk on a host -> is its maker's scope's; for others its name is taken and no more", async () => {
      mesh.director.cpi.addHost("h1", "z1");
      const [own, other] = [callers.get("csi/own") as Caller, callers.get("operator-disks/a") as Caller];
      const wish = { diskName: "on-host", hostId: "h1", sizeBytes: MIB, wait: true };
      const { disk } = await own.disks.provideDynamicDisk(wish);
      expect(disk).to.include({ hostId: "h1", deployment: "" });
      await rejection(other.disks.getDynamicDisk({ diskName: "on-host" }), NotFoundError);
      expect((await other.disks.provideDynamicDisk(wish)).task?.result).to.contain("its name is taken");
      const { task } = await other.disks.detachDynamicDisk({ diskName: "on-host", hostId: "h1", wait: true });
      expect(task?.result).to.equal("disk `on-host` not found");
      await own.disks.detachDynamicDisk({ diskName: "on-host", wait: true });
      const data = mesh.director.cpi.disks.get(disk?.diskCid ?? "");
      expect((await own.disks.deleteDynamicDisk({ diskName: "on-host", wait: true })).task?.state).to.equal(
        "TASK_STATE_DONE",
      );
      if (data) mesh.director.cpi.disks.set(disk?.diskCid ?? "", data);
      const undelete = async ({ disks }: Caller) =>
        (await disks.undeleteDynamicDisk({ diskName: "on-host", wait: true })).task?.result;
      expect(await undelete(other)).to.equal("no deleted disk `on-host` is remembered");
      await other.disks.provideDynamicDisk(wish);
      expect(await undelete(own)).to.equal("the name of the deleted disk `on-host` is taken by another disk now");
      await other.disks.detachDynamicDisk({ diskName: "on-host", wait: true });
      await other.disks.deleteDynamicDisk({ diskName: "on-host", wait: true });
      expect(await undelete(own)).to.contain("disk `on-host` is back");
      await rejection(other.disks.getDynamicDisk({ diskName: "on-host" }), NotFoundError);
      await own.disks.deleteDynamicDisk({ diskName: "on-host", wait: true });
    });

    it("a disk that a caller with a scope made -> still there after a restart", async () => {
      for (const [who, { disks }] of callers) {
        const diskName = `made-by-${who.replace("/", "-")}`;
        await disks.createDynamicDisk({ ...WISH, diskName, deployment: "own", az: "z1" });
        await mesh.director.restartTuned({});
        expect((await disks.getDynamicDisk({ diskName })).disk?.deployment).to.equal("own");
        await disks.deleteDynamicDisk({ diskName, wait: true });
      }
    });

    it("a page token of another caller's list -> shows only own disks", async () => {
      const { nextPageToken: pageToken } = await mesh.director.disks.listDynamicDisks({ pageSize: 1 });
      for (const { disks } of callers.values()) {
        const { disks: shown, nextPageToken } = await disks.listDynamicDisks({ pageSize: 10, pageToken });
        expect(shown.map(({ deployment }) => deployment)).to.deep.equal(["own", "own"]);
        expect(nextPageToken).to.equal("");
      }
    });
  });
});

function answerOfError(error: unknown): object {
  if (!(error instanceof DomainError)) throw error;
  const { reason, message, about } = error;
  return { reason, message, about };
}

/** Decodes what is encoded: the details of a task's error, and the last name in a page token. */
function shown(name: string, value: unknown): unknown {
  if (name === "nextPageToken")
    return Buffer.from(value as string, "base64url")
      .toString("utf8")
      .replace(/^\S+ /, "");
  const { type, data } = (value ?? {}) as { readonly type?: string; readonly data?: readonly number[] };
  return type === "Buffer" && data !== undefined ? ErrorInfo.decode(Uint8Array.from(data)) : value;
}
