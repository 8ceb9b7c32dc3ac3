import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { PassThrough } from "node:stream";
import { StepState, TaskOutputType, TaskState } from "@diskmesh/api/director";
import { runCommandLine } from "@diskmesh/cli";
import { OpenPage } from "@diskmesh/director/testing";
import { AbortedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { parse } from "yaml";
import { isPrinted } from "../operations/document.js";
import { repositoryFolder } from "../repository-folder.js";
import { nodeTarget, PassthruScene } from "./scene.js";

const PAGE = "docs/guides/writing-drivers.md";

interface DriverEntry {
  readonly package: string;
  readonly settings?: object;
}

interface Typed {
  readonly args: readonly string[];
  readonly printed: string;
}

/** Drivers, configs and commands of the page. */
class Page {
  readonly #text = readFileSync(join(repositoryFolder, PAGE), "utf8");
  readonly #folder = temporaryFolder();

  /** Writes the page's drivers below a temporary folder. Returns the entries of the config that names one. */
  drivers(name: string): DriverEntry[] {
    for (const [, path = "", code = ""] of this.#text.matchAll(/`\/opt\/([\w./-]+)`:\n\n```js\n(.*?)```/gs)) {
      mkdirSync(dirname(join(this.#folder, path)), { recursive: true });
      writeFileSync(join(this.#folder, path), code);
    }
    const configs = [...this.#text.matchAll(/```yaml\n(.*?)```/gs)].map(([, text = ""]) => text);
    const config = configs.find((text) => text.includes(`/opt/${name}`));
    expect(config, name).not.to.equal(undefined);
    return (parse(config ?? "") as { drivers: DriverEntry[] }).drivers.map((driver) => ({
      ...driver,
      package: this.#placed(driver.package),
    }));
  }

  /** Returns the arguments of the page's commands, with what each prints. */
  commands(): readonly Typed[] {
    return [...this.#text.matchAll(/^\$ diskmesh (.*)\n((?:(?!\$ |```).*\n)*)/gm)].map(
      ([, line = "", printed = ""]) => ({
        args: [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, word = ""]) => quoted ?? this.#placed(word)),
        printed,
      }),
    );
  }

  #placed(path: string): string {
    return path.replace(/^\/opt\b/, this.#folder);
  }
}

describe("the drivers of the guide", () => {
  const page = new Page();
  const scene = PassthruScene.forAllTests({
    hosts: 1,
    directorDrivers: page.drivers("ipxe"),
    agentDrivers: page.drivers("flash"),
    methods: ["flash"],
  });

  const begin = async () => {
    const { outcome } = await scene.vendors.callMethod({
      target: nodeTarget(),
      method: "flash",
      args: { version: "2" },
    });
    return outcome?.$case === "task" ? outcome.value.taskId : 0;
  };

  /** Waits until a block is written. */
  const isWriting = (taskId: number) =>
    eventually(async () => {
      const { lines } = await scene.mesh.clients.tasks.getTaskOutput({ taskId, type: TaskOutputType.EVENT });
      expect(lines.join()).to.contain("writes block 2");
    });

  it("print what the page shows, in folders that have nothing else", async () => {
    const commands = page.commands();
    const kinds = commands.map(({ args }) => args[0]);
    expect([...new Set(kinds)]).to.have.members(["passthru", "cancel", "get", "driver"]);
    const tasks = new Map<string, string>();
    for (const { args, printed } of commands) {
      const typed = args.map((arg) => tasks.get(arg) ?? arg);
      const taskId = Number(args.map((arg) => tasks.get(arg)).find((id) => id !== undefined));
      if (args[0] === "cancel") await isWriting(taskId);
      if (args[0] === "get") await scene.ended(taskId);
      const { code, out, err } = await scene.mesh.typed(...typed);
      expect(code, err).to.equal(0);
      const [, shown] = /^task (\d+)$/m.exec(printed) ?? [];
      const [, own] = /^task (\d+)$/m.exec(out) ?? [];
      if (shown !== undefined && own !== undefined) tasks.set(shown, own);
      const said = own === undefined ? err + out : out.replace(own, shown ?? own);
      expect(isPrinted(printed, said), `${args.join(" ")}:\n${said}`).to.equal(true);
    }
  });

  it("tell what a method left that Ctrl-C cancelled in `driver try`", async () => {
    const { args } = page
      .commands()
      .find((each) => each.args.slice(0, 2).join(" ") === "driver try" && each.args[3] === "flash") ?? { args: [] };
    const [out, err] = [new PassThrough(), new PassThrough()];
    const stop = new AbortController();
    const surroundings = { out, err, environment: {}, workingFolder: scene.mesh.folder, signal: stop.signal };
    const ended = runCommandLine(args, surroundings);
    let said = "";
    err.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      if (/writes block 1/.test(text)) stop.abort();
    });
    expect(await ended).to.equal(5);
    await eventually(() =>
      expect(said).to.match(/the method was cancelled: stopped after block 1 of 2: flash it again/),
    );
    expect(out.read()).to.equal(null);
  });

  it("answer a machine that boots, at a link and without a login", async () => {
    const { args } = page.commands().find((each) => each.args.includes("--link")) ?? { args: [] };
    const { out } = await scene.mesh.typed(...args);
    const { port, pathname, search } = new URL(out.trim());
    expect(Number(port)).to.equal(scene.http("admin").port);
    const get = (query = search, verb = "GET") => scene.http("admin").send(verb, `${pathname}${query}`, { login: "" });
    const answer = await get();
    const from = "http://192.0.2.7/images/rescue";
    expect([answer.status, answer.body]).to.deep.equal([
      200,
      `#!ipxe\nkernel ${from}/vmlinuz\ninitrd ${from}/initrd.img\nboot\n`,
    ]);
    expect(answer.headers)
      .to.include({ "content-type": "text/plain; charset=utf-8" })
      .and.not.have.property("content-disposition");
    const head = await get(search, "HEAD");
    expect([head.status, head.body, head.headers["content-length"]]).to.deep.equal([
      200,
      "",
      answer.headers["content-length"],
    ]);
    expect((await get(search, "POST")).status).to.equal(404);
    expect((await get(`${search.slice(0, -1)}_`)).status).to.equal(403);
    expect((await get("")).status).to.equal(403);
    const token = search.slice("?link=".length);
    for (const name of ["director", "host-1"]) expect(scene.mesh.process(name).logs).not.to.contain(token);
    await eventually(async () => {
      const { body } = await scene.send("GET", "/events");
      expect(body).to.contain("link of").and.to.contain("ipxe.boot_script").and.not.to.contain(token);
    });
  });

  it("tell their progress in WatchTask, at the page, and in the Retry-After of the locked node", async () => {
    const browser = new OpenPage(scene.http("admin"));
    try {
      const taskId = await begin();
      await eventually(() =>
        expect(browser.rows.get(`task ${taskId}`)?.progress).to.match(/^\d+ %: writes block \d+ of 10$/),
      );
      const waits = await eventually(async () => {
        const { retryAfterMs = 0 } = await rejection(begin(), AbortedError);
        expect(retryAfterMs).to.be.above(1_000);
        return retryAfterMs;
      });
      expect(waits).to.be.at.most(60_000);
      const told: string[] = [];
      for await (const { update } of scene.mesh.clients.tasks.watchTask({ taskId })) {
        if (update?.$case !== "event" || update.value.state !== StepState.IN_PROGRESS) continue;
        told.push(`${update.value.percent} ${update.value.message}`);
      }
      expect(told.slice(-1)).to.deep.equal(["90 writes block 10 of 10"]);
      await eventually(() => expect(browser.rows.get(`task ${taskId}`)?.progress).to.equal(""));
    } finally {
      browser.close();
    }
  });

  it("tell what a cancelled method left", async () => {
    const taskId = await begin();
    await scene.called(taskId);
    await scene.mesh.clients.tasks.cancelTask({ taskId });
    const { state, result } = await scene.ended(taskId);
    expect(state).to.equal(TaskState.CANCELLED);
    expect(result).to.match(
      /the method was cancelled: stopped (before anything was written|after block \d+ of 10: flash it again)/,
    );
  });
});
