import { constants, readFileSync, realpathSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { noise } from "@diskmesh/disk-agent/testing";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { expectCut, HOLDER, STORAGE } from "../between-hosts.js";
import { alignedBlocks, BLOCK_BYTES, CheckedWriter } from "../checked-writer.js";
import { there } from "../machine-calls.js";
import { count } from "../tally.js";
import { begin, DEPTH, order, publish, REST_MS, setUp, useMachines } from "./hosts.js";

/** Block behind those of the writers. */
const FREE_BLOCK = 100;

async function openDirect(path: string): Promise<{ file: FileHandle; write(data: Buffer): Promise<void> }> {
  const file = await open(realpathSync(path), constants.O_RDWR | constants.O_DIRECT);
  const [block = Buffer.alloc(0)] = alignedBlocks(1);
  return {
    file,
    async write(data) {
      data.copy(block);
      await file.write(block, 0, BLOCK_BYTES, FREE_BLOCK * BLOCK_BYTES);
    },
  };
}

describe("a power cut of the devices' machine", () => {
  useMachines();

  it("fails a flush after the devices' machine was killed and started anew, and is made anew", async () => {
    const { session, path } = await publish();
    const former = realpathSync(path);
    const writer = await CheckedWriter.start(path, DEPTH, REST_MS);
    await writer.progress();
    const { file, write } = await openDirect(path);
    const data = noise(BLOCK_BYTES);
    await write(data);
    await restartStorage();
    await countLost(data);
    expectCut([(await rejection(file.datasync(), Error)).message]);
    await writer.ended();
    expectCut(writer.errors);
    await writer.stop();
    await eventually(async () => {
      await order(HOLDER, "look", session);
      expect(realpathSync(path)).to.not.equal(former);
    });
    const fresh = await openDirect(path);
    await fresh.write(noise(BLOCK_BYTES));
    await fresh.file.datasync();
    expectCut([(await rejection(file.datasync(), Error)).message]);
    await file.close();
    await fresh.file.close();
    await order(HOLDER, "end", session);
    count("flushes after a kill of the devices' machine, which failed");
  });

  it("fails a flush that is in flight when the machine is killed, unless the kernel has NVMe multipath", async () => {
    const { session, path } = await publish();
    const { file, write } = await openDirect(path);
    const data = noise(BLOCK_BYTES);
    await write(data);
    await there.cutPower();
    const flush = file.datasync().then(
      () => "acknowledged",
      () => "failed",
    );
    await restartStorage();
    await countLost(data);
    const multipath = readFileSync("/sys/module/nvme_core/parameters/multipath", "utf8").trim();
    count(`flushes in flight, with multipath ${multipath}, that were ${await flush}`);
    expect(await flush).to.equal(multipath === "Y" ? "acknowledged" : "failed");
    await rejection(file.datasync(), Error);
    await file.close();
    await order(HOLDER, "end", session);
  });
});

/** Cuts the power of the devices' machine unless it is off, and starts the machine with its agent. */
async function restartStorage(): Promise<void> {
  await there.cutPower();
  await there.boot();
  await setUp(STORAGE);
  await begin(STORAGE);
}

/** Counts the loss of a write that no flush has followed. */
async function countLost(data: Buffer): Promise<void> {
  const kept = Buffer.from(await there.blocks("a", FREE_BLOCK + 1), "base64").subarray(-BLOCK_BYTES);
  if (!kept.equals(data)) count("writes without a flush that went with the machine");
}
