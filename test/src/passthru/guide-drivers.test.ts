import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { StepState, TaskState } from "@diskmesh/api/director";
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
      package: driver.package.replace("/opt", this.#folder),
    }));
  }

  /** Returns the arguments of the page's commands, with what each prints. */
  commands(): { readonly args: string[]; readonly printed: string }[] {
    return [...this.#text.matchAll(/^\$ diskmesh (passthru .*)\n((?:[^$`].*\n)*)/gm)].map(
      ([, line = "", printed = ""]) => ({
        args: [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, word = ""]) => quoted ?? word),
        printed,
      }),
    );
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

  it("print what the page shows", async () => {
    const commands = page.commands();
    expect(commands).not.to.be.empty;
    for (const { args, printed } of commands) {
      const { code, out, err } = await scene.mesh.typed(...args);
      expect(code, err).to.equal(0);
      expect(isPrinted(printed, err + out), `${args.join(" ")}:\n${err}${out}`).to.equal(true);
    }
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
        expect(browser.rows.get(`task ${taskId}`)?.progress).to.match(/^\d+ %: writes block \d of 3$/),
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
      expect(told.slice(-1)).to.deep.equal(["66 writes block 3 of 3"]);
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
      /the method was cancelled: stopped (before anything was written|after block \d of 3: flash it again)/,
    );
  });
});
