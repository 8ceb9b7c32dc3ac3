import { expect } from "chai";
import type { FollowedTask, HttpClient, TaskObject } from "../../testing/http-client.js";
import { type HttpDirector, startHttpDirector } from "../../testing/http-director.js";

describe("dynamic disks and their tasks over HTTPS", () => {
  let mesh: HttpDirector;
  let http: HttpClient;
  let instances: string[];

  before(async () => {
    mesh = await startHttpDirector();
    ({ http } = mesh);
    instances = await mesh.director.deploy("web", 2);
  });
  after(() => mesh?.director.stop());

  const wish = (name: string, more: object = {}) =>
    JSON.stringify({ disk_name: name, instance_id: instances[0], disk_pool_name: "fast", disk_size: 64, ...more });
  const provide = (name: string, client = http): Promise<FollowedTask> =>
    client.task("POST", "/dynamic_disks/provide", { body: wish(name) });

  it("provide, list, detach without a content type, delete -> tasks that clients can follow", async () => {
    mesh.director.cpi.diskUnitMib = 65.5;
    const provided = await provide("a");
    mesh.director.cpi.diskUnitMib = 1;
    expect(provided.task).to.include({ state: "done", user: "admin" });
    expect(provided.task.id).to.be.a("number");
    const [disk] = (await http.json("/dynamic_disks")) as { disk_cid: string }[];
    expect(provided.result).to.equal(`{"disk_cid":"${disk?.disk_cid}"}\n`);
    expect(provided.task.result).to.match(/^attached disk `a` to `vm-[^ ]+` in deployment `web`$/);
    expect((await provide("a")).result).to.equal(provided.result, "and so it is when it is asked for again");
    expect(disk).to.deep.include({ name: "a", deployment: "web", size: 65, disk_pool_name: "fast", metadata: {} });
    expect(disk).to.include({ instance: `db/${instances[0]}`, availability_zone: "z1" });
    const detached = await http.task("POST", "/dynamic_disks/a/detach", { headers: { "content-length": "0" } });
    expect(detached.result).to.equal(`detached disk \`${disk?.disk_cid}\`\n`);
    expect((await http.task("DELETE", `/dynamic_disks/${disk?.disk_cid}`)).task.state).to.equal("done");
    expect(await http.json("/dynamic_disks")).to.deep.equal([]);
    expect((await http.task("DELETE", "/dynamic_disks/a")).task.state).to.equal("done");
  });

  it("provide and attach by host_id -> the task's result has the path, and the list has the host", async () => {
    mesh.director.cpi.addHost("h1", "z1");
    const request = { disk_name: "c", host_id: "h1", disk_size: 5 };
    const provided = await http.task("POST", "/dynamic_disks/provide", { body: JSON.stringify(request) });
    const [disk] = (await http.json("/dynamic_disks")) as { disk_cid: string }[];
    const path = `/memory/${disk?.disk_cid}`;
    expect(provided.result).to.equal(`{"disk_cid":"${disk?.disk_cid}","path":"${path}"}\n`);
    expect(disk).to.include({ name: "c", deployment: "", instance: null, host: "h1", path, pool: "default" });
    await http.task("POST", "/dynamic_disks/c/detach");
    const attached = await http.task("POST", "/dynamic_disks/c/attach", { body: '{"host_id":"h1"}' });
    expect(attached.result).to.equal(provided.result);
    const both = { ...request, instance_id: instances[0] };
    const bad = [
      both,
      { ...request, pool: "a b" },
      { ...request, pool: true },
      ...["h 1", "a/b/h1", [], true].map((host_id) => ({ ...request, host_id })),
    ];
    for (const path of ["/dynamic_disks/provide", "/dynamic_disks/c/attach", "/dynamic_disks"])
      for (const each of path.endsWith("attach") ? bad.filter((each) => !("pool" in each)) : bad)
        expect((await http.send("POST", path, { body: JSON.stringify(each) })).status, path).to.equal(400);
    await http.task("POST", "/dynamic_disks/c/detach");
    await http.task("DELETE", "/dynamic_disks/c");
  });

  it("a faulty body -> 400 with BOSH's codes, and nothing of the body quoted", async () => {
    const wrong: [object | string, number, string][] = [
      ["{}", 40_001, "Required property '"],
      [wish("c", { disk_size: "64" }), 40_000, "did not match the required type 'Integer'"],
      [wish("c", { disk_size: 0 }), 40_002, "'disk_size' value (0) should be greater than 1"],
      [wish(""), 40_002, "'disk_name' length (0) should be greater than 1"],
      [wish("c", { metadata: null }), 40_000, "Property 'metadata' value (nil)"],
      [wish("c", { metadata: ["s3cret"] }), 40_000, "did not match the required type 'Hash'"],
      [wish("c", { disk_size: 1e15 }), 40_005, "disk_size"],
      ["[]", 710_001, "not a JSON object"],
    ];
    for (const [body, code, says] of wrong) {
      const answer = await http.send("POST", "/dynamic_disks/provide", { body: String(body) });
      expect(answer.status).to.equal(400);
      expect(JSON.parse(answer.body)).to.include({ code });
      expect(answer.body).to.contain(says).and.not.to.contain("s3cret");
    }
  });

  it("scopes -> each permits one operation; the creator of a task reads that task and no other", async () => {
    const disks = mesh.as("disks");
    const { task } = await provide("own", disks);
    expect(task).to.include({ state: "done", user: "disks" });
    expect((await disks.send("GET", `/tasks/${task.id}/output?type=debug`)).status).to.equal(401);
    expect((await disks.send("GET", "/tasks")).status).to.equal(401);
    const others = (await provide("other")).task.id;
    expect((await disks.send("GET", `/tasks/${others}`)).status).to.equal(401);
    expect((await disks.send("GET", "/tasks/99999")).status).to.equal(401);
    const creator = mesh.as("creator");
    expect((await creator.send("POST", "/dynamic_disks/provide", { body: wish("x") })).status).to.equal(401);
    expect((await creator.send("GET", "/dynamic_disks")).status).to.equal(401);
    const reader = mesh.as("reader");
    expect((await reader.send("GET", `/tasks/${others}`)).status).to.equal(200);
    expect((await reader.send("GET", `/tasks/${others}/output?type=cpi`)).status).to.equal(401);
    expect((await reader.send("GET", "/dynamic_disks")).status).to.equal(401);
    expect((await reader.send("DELETE", `/task/${others}`)).status).to.equal(401);
  });

  it("output by range -> the bytes from the offset, 416 at the end", async () => {
    const { task } = await provide("ranges");
    const path = `/tasks/${task.id}/output?type=event`;
    const { body: whole } = await http.send("GET", path);
    const size = Buffer.byteLength(whole);
    for (const line of whole.trimEnd().split("\n")) expect(JSON.parse(line)).to.include.keys("time", "stage", "state");
    for (const from of [0, 1, 17, size - 1]) {
      const part = await http.send("GET", path, { headers: { range: `bytes=${from}-` } });
      expect(part).to.include({ status: 206, body: whole.slice(from) });
      expect(part.headers["content-range"]).to.equal(`bytes ${from}-${size - 1}/${size}`);
    }
    expect((await http.send("GET", path, { headers: { range: "bytes=2-5" } })).body).to.equal(whole.slice(2, 6));
    for (const from of [size, size + 100])
      expect((await http.send("GET", path, { headers: { range: `bytes=${from}-` } })).status).to.equal(416);
    const empty = await http.send("GET", `/tasks/${task.id}/output?type=cpi`, { headers: { range: "bytes=0-" } });
    expect(empty.status).to.equal(416);
    for (const type of ["constructor", "__proto__"])
      expect((await http.send("GET", `/tasks/${task.id}/output?type=${type}`)).status).to.equal(400);
  });

  it("a task that fails -> its state, its result and a failed event", async () => {
    const { task, result } = await http.task("POST", "/dynamic_disks/missing/detach");
    expect(task.state).to.equal("error");
    expect(task.result).to.contain("missing");
    expect(result).to.contain(task.result as string);
  });

  it("lists -> newest first, limited, by state and deployment; disk tasks only with verbose 2", async () => {
    const all = (await http.json("/tasks?verbose=2&limit=5")) as TaskObject[];
    expect(all).to.have.length(5);
    expect(all.map(({ id }) => id)).to.deep.equal(all.map(({ id }) => id).sort((a, b) => b - a));
    const recent = (await http.json("/tasks?limit=30&verbose=1&deployment=web")) as TaskObject[];
    expect(recent.map(({ description }) => description)).to.deep.equal(["create deployment `web`"]);
    expect(await http.json("/tasks?state=processing%2Ccancelling%2Cqueued&verbose=2")).to.deep.equal([]);
  });
});
