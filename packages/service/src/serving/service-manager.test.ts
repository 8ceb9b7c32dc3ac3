import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { silentLogger } from "@diskmesh/domain";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { ServiceManager } from "./service-manager.js";

describe("notifications to systemd", () => {
  const { PATH } = process.env;
  let sent: string;

  beforeEach(() => {
    const folder = temporaryFolder();
    sent = join(folder, "sent");
    const program = join(folder, "systemd-notify");
    writeFileSync(program, `#!/bin/sh\necho "$@" >> ${sent}\n`);
    chmodSync(program, 0o755);
    process.env.PATH = `${folder}:${PATH}`;
  });
  afterEach(() => {
    process.env.PATH = PATH;
  });

  const lines = (): string[] => (existsSync(sent) ? readFileSync(sent, "utf8").trim().split("\n") : []);

  it("the start, then the watchdog several times in its time, then the stop", async () => {
    const manager = new ServiceManager({ NOTIFY_SOCKET: "/run/x", WATCHDOG_USEC: "200000" }, silentLogger);
    manager.started();
    await eventually(() => expect(lines().filter((line) => line === "WATCHDOG=1")).to.have.length.above(2));
    expect(lines()).to.include("READY=1");
    manager.stopping();
    await eventually(() => expect(lines()).to.include("STOPPING=1"));
    const count = lines().length;
    await sleep(300);
    expect(lines().length).to.be.at.most(count + 1);
  });

  it("nothing without systemd, and no watchdog unless the unit has one", async () => {
    const without = new ServiceManager({}, silentLogger);
    without.started();
    without.stopping();
    const manager = new ServiceManager({ NOTIFY_SOCKET: "/run/x" }, silentLogger);
    manager.started();
    await eventually(() => expect(lines()).to.deep.equal(["READY=1"]));
    manager.stopping();
  });
});
