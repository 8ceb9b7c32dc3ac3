import type { ActionAnswer, EventsAnswer } from "@diskmesh/page/rows";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import type { HttpClient } from "../../testing/http-client.js";
import { type HttpDirector, startHttpDirector } from "../../testing/http-director.js";
import { OpenPage } from "../../testing/open-page.js";

describe("the page over HTTPS", () => {
  let mesh: HttpDirector;
  let http: HttpClient;
  let page: OpenPage;

  before(async () => {
    mesh = await startHttpDirector();
    ({ http } = mesh);
    page = new OpenPage(http);
  });
  after(async () => {
    page?.close();
    await mesh?.director.stop();
  });

  it("its files -> complete, with types and ETags, and without references to other sites", async () => {
    const page = await mesh.as("reader").send("GET", "/page");
    expect(page).to.include({ status: 200 });
    const policy = String(page.headers["content-security-policy"]);
    expect(policy).to.contain("default-src 'none'").and.to.contain("frame-ancestors 'none'");
    expect(policy).not.to.match(/unsafe|https?:|\*/);
    expect(page.headers).to.include({ "x-content-type-options": "nosniff", "referrer-policy": "no-referrer" });
    expect(page.body).not.to.match(/<script(?![^>]*\bsrc=)|\bon\w+=|style="/);
    // The director itself serves every file that the page refers to.
    const wanted = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path = ""]) => path);
    for (const path of wanted) {
      const { status, headers, body } = await http.send("GET", path);
      expect(status, path).to.equal(200);
      expect(await http.send("GET", path, { headers: { "if-none-match": String(headers.etag) } })).to.include({
        status: 304,
        body: "",
      });
      if (!path.endsWith(".js")) continue;
      for (const [, from = ""] of body.matchAll(/\b(?:from|import)\s*"([^"]+)"/g)) {
        expect(from).to.match(/^\.\//);
        const next = `/page/files/${from.slice(2)}`;
        if (!wanted.includes(next)) wanted.push(next);
      }
    }
    expect(wanted).to.include.members(["/page/files/store.js", "/page/files/preact.js", "/page/files/preact-hooks.js"]);
  });

  it("the documentation -> its texts; nothing else of the disk", async () => {
    const page = await http.send("GET", "/page/docs/operate/troubleshooting.md");
    expect(page).to.include({ status: 200 });
    expect(page.headers).to.include({ "content-type": "text/plain; charset=utf-8" });
    expect(page.headers).to.include({ "x-content-type-options": "nosniff" });
    expect(page.body).to.match(/^# /);
    for (const path of ["..%2fpackage.json", "%2e%2e/README.md", "pictures/terminal.svg", "nothing.md", "README.md%00"])
      expect((await http.send("GET", `/page/docs/${path}`)).status, path).to.equal(404);
  });

  it("no login, no scope -> 401 without a browser password prompt; an unknown file -> 404", async () => {
    for (const path of ["/page/overview", "/page/why?kind=task&name=1", "/page/session", "/page/docs/README.md"]) {
      const without = await http.send("GET", path, { login: "" });
      expect(without.status, path).to.equal(401);
      expect(without.headers, path).not.to.have.property("www-authenticate");
      expect((await mesh.as("nobody").send("GET", path)).status, path).to.equal(401);
    }
    for (const name of ["..%2fpackage.json", "package.json", "nothing.js", "__proto__", "%00"])
      expect((await http.send("GET", `/page/files/${name}`)).status, name).to.equal(404);
  });

  it("a task -> shown within a second of its commit, and its end; without secrets", async () => {
    const { rows } = page;
    await mesh.director.deploy("seen", 1);
    const committedMs = Date.now();
    await eventually(() =>
      expect(rows.get("task 1")).to.include({ state: "done", deployment: "seen", hasEnded: true }),
    );
    console.log(`      seen ${Date.now() - committedMs} ms after the answer to whoever waited for it`);
    await eventually(() => expect(rows.get("source director")).to.deep.equal({ state: "live" }));
    await eventually(() => expect(rows.get("source cpi-dispatcher")).to.have.property("state"));
    expect(JSON.stringify([...rows])).not.to.match(/pw-|passwordHash|scrypt|PRIVATE/);
  });

  it("the director's own missing dependencies -> shown at the top of the page until they are back", async () => {
    const { rows } = page;
    expect(await http.json("/page/self")).to.deep.equal({ state: "live" });
    expect((await mesh.as("nobody").send("GET", "/page/self")).status).to.equal(401);
    await mesh.director.nats.kill();
    const lacksNats =
      /^the director that was asked lacks its nats: .*: start nats-server, restart it if it hangs, or repair the network to it$/;
    try {
      await eventually(() => expect(rows.get("source director")?.trouble).to.match(lacksNats));
      // The reason why NATS is unreachable may change between attempts, which later events show.
      await eventually(async () => expect(await http.json("/page/self")).to.deep.equal(rows.get("source director")));
    } finally {
      await mesh.director.nats.start();
    }
    await eventually(() => expect(rows.get("source director")).to.deep.equal({ state: "live" }));
  });

  it("explanations and events of known and unknown objects", async () => {
    const why = (await http.json("/page/why?kind=task&name=1")) as { summary: string; causes: unknown[] };
    expect(why.summary).to.match(/^task 1 \(.*is done/);
    expect((await http.send("GET", "/page/why?kind=task&name=999")).status).to.equal(404);
    expect((await http.send("GET", "/page/why?kind=odd&name=1")).status).to.equal(400);
    const events = (await http.json("/page/events?thing=nothing")) as EventsAnswer;
    expect(events.entries).to.deep.equal([]);
    expect((await http.send("GET", "/page/events?after=yesterday")).status).to.equal(400);
  });

  it("actions -> for admins only, as JSON, and first as a dry run", async () => {
    const path = "/page/tasks/1/cancel";
    const body = JSON.stringify({ dry_run: true });
    expect((await mesh.as("reader").send("POST", path, { body })).status).to.equal(401);
    expect((await http.send("POST", path, { headers: { "content-type": "text/plain" }, body })).status).to.equal(415);
    const foreseen = await http.send("POST", path, { body });
    expect(JSON.parse(foreseen.body).lines[0]).to.match(/^task 1 \(.*\) is asked to stop/);
    expect((await http.json("/tasks/1")) as object).to.include({ state: "done" });
    const done = await http.send("POST", path, { body: JSON.stringify({ dry_run: false }) });
    expect([done.status, done.body]).to.satisfy(
      ([status, text]: [number, string]) => status === 400 && /done/.test(text),
    );
    const dead = JSON.stringify({ dry_run: true, state: "dead", reason: "x" });
    expect((await http.send("POST", "/page/hosts/h/state", { body: dead })).status).to.equal(404);
  });

  it("actions on a dynamic disk -> a task, and the command that does the same", async () => {
    const [instanceId = ""] = await mesh.director.deploy("acted", 1);
    await mesh.director.provide("scratch", instanceId);
    const { disk } = await mesh.director.disks.getDynamicDisk({ diskName: "scratch" });
    const { rows } = page;
    const labelled = { text: "scratch", of: "instance" };
    await eventually(() => expect(rows.get(`label ${disk?.diskCid}`)).to.deep.equal({ ...labelled, isAttached: true }));
    const send = async (action: string, fields: object, isDry = true) => {
      const body = JSON.stringify({ ...fields, dry_run: isDry });
      const { status, body: answer } = await http.send("POST", `/page/disks/${disk?.diskCid}/${action}`, { body });
      return {
        status,
        ...(JSON.parse(answer) as ActionAnswer & { readonly description?: string; readonly field?: string }),
      };
    };
    const refused: readonly [string, object, RegExp][] = [
      ["delete", {}, /attached to instance .*: detach it before/],
      ["attach", { to: "i" }, /attached to instance .*: detach it before/],
      ["resize", { size: "12 parsecs" }, /size "12 parsecs" is malformed/],
      ["resize", { size: "1MiB" }, /has 64 MiB and only grows/],
      ["limits", { read_iops: "many" }, /read_iops must be a whole number/],
      ["limits", { read_bytes_per_second: "50B" }, /would seem to hang/],
    ];
    expect((await send("resize", { size: "12 parsecs" })).field).to.equal("size");
    expect((await send("limits", { read_iops: "many" })).field).to.equal("read_iops");
    for (const [action, fields, message] of refused) {
      const { status, description } = await send(action, fields);
      expect(status, action).to.equal(400);
      expect(description, action).to.match(message);
    }
    const limits = { read_iops: "500", write_bytes_per_second: "50MiB" };
    expect(await send("limits", limits)).to.deep.equal({
      status: 200,
      lines: ["of disk scratch, at most 500 reads, 50 MiB written per second"],
      command: "diskmesh limits scratch --read-iops 500 --write-rate 50MiB",
    });
    expect((await send("limits", {})).command).to.equal("diskmesh limits scratch --none");
    const { command, taskId = 0 } = await send("detach", {}, false);
    expect(command).to.equal("diskmesh detach scratch");
    await eventually(() => expect(rows.get(`task ${taskId}`)).to.include({ state: "done" }));
    await eventually(() => expect(rows.get(`label ${disk?.diskCid}`)).to.deep.equal(labelled));
    expect((await send("attach", { to: instanceId })).command).to.equal("diskmesh attach scratch acted/db/0");
    expect((await send("detach", {})).description).to.match(/attached to nothing/);
    expect((await send("undelete", {})).status, "undelete before it is deleted").to.equal(404);
    const content = mesh.director.cpi.disks.get(disk?.diskCid ?? "");
    await send("delete", {}, false);
    await eventually(() => expect(rows.get(`label ${disk?.diskCid}`)).to.equal(null));
    if (content !== undefined) mesh.director.cpi.disks.set(content.diskCid, content);
    const back = await send("undelete", {}, false);
    expect(back.command).to.equal(`diskmesh undelete ${disk?.diskCid}`);
    await eventually(() => expect(rows.get(`task ${back.taskId}`)).to.include({ state: "done" }));
    await eventually(() => expect(rows.get(`label ${disk?.diskCid}`)).to.deep.equal(labelled));
    await send("delete", {}, false);
    await eventually(() => expect(rows.get(`label ${disk?.diskCid}`)).to.equal(null));
    const { status, description } = await send("detach", {});
    expect([status, description]).to.satisfy(
      ([code, text]: [number, string]) => code === 404 && /no dynamic disk/.test(text),
    );
  });
});
