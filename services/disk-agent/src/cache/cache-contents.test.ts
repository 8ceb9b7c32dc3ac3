import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { expect } from "chai";
import { decideExport, decideUnexport } from "../model/exports.js";
import { type AgentMemory, emptyMemory, withDevice } from "../model/memory.js";
import { WHOLE_DEVICE } from "../model/runs.js";
import { decodeCache, encodeCache } from "./cache-contents.js";
import { unseal } from "./seal.js";
import { latestText } from "./slots.js";

const HOST = "host-1" as HostId;

function full(): AgentMemory {
  const leader = { tabletId: "tablet", incarnation: "child", formerIncarnations: ["parent"], tabletGeneration: 4 };
  let memory: AgentMemory = { ...emptyMemory(HOST), ...leader, exportFloor: 2, blockPort: 40_001 };
  const holder = { diskId: "disk-1", holderHostId: "host-2", sessionKey: "ab12" };
  const session = { number: 7, purpose: "disk", ended: false, offsetBytes: 0, sizeBytes: 8192, ...holder } as const;
  const sessions = [session, { ...session, number: 9, offsetBytes: 8192, sizeBytes: 0, ended: true }];
  const order = { tabletGeneration: 4, deviceGeneration: 9, kind: "detach" } as const;
  memory = withDevice(memory, "a" as DeviceId, { order, labelId: "ab".repeat(16), sessions, floor: 6 });
  const failed = { hardwareError: "EIO", hardwareErrorAtMs: 1_700_000_000_000 };
  memory = withDevice(memory, "b" as DeviceId, { order: { ...order, kind: "attach" }, ...failed });
  const access = { blockAddress: "127.0.0.1:7", sessionKey: "cd34" };
  const extent = { deviceId: "a" as DeviceId, hostId: HOST, sizeBytes: 4096, ...access };
  const spec = { diskId: "disk-1" as DiskId, sessionNumber: 7, blockSizeBytes: 4096, extents: [extent] };
  const limits = { readIops: 1, writeIops: 2, readBytesPerSecond: 3, writeBytesPerSecond: 4, burstSeconds: 5 };
  const more = { readOnly: true, limits, exportKind: "NBD", revision: 6 } as const;
  const grown = {
    ...spec,
    ...more,
    diskId: "disk-3" as DiskId,
    extents: [{ ...extent, offsetBytes: 8192, sessionNumber: 9 }],
  };
  memory = decideExport(decideExport(memory, spec), grown);
  return decideUnexport(memory, "disk-2" as DiskId, 8, 10);
}

const decode = (text: string): AgentMemory => decodeCache(text, HOST);

describe("the cache's contents", () => {
  it("of 0.1.0 are read", () => {
    const file = fileURLToPath(new URL("../../fixtures/agent-cache-0.1.0", import.meta.url));
    const text = latestText(readFileSync(file, "utf8"));
    const { tabletId, devices, exports } = decode(unseal(text));
    expect(tabletId).to.equal("5047ec0d-0c8d-4b0e-b6d1-f3143495cc47");
    expect(
      [...devices.values()].map(({ sessions = [] }) =>
        sessions.map(({ number, offsetBytes, sizeBytes }) => ({ number, offsetBytes, sizeBytes })),
      ),
    ).to.deep.equal([25, 26, 17, 8].map((number) => [{ number, ...WHOLE_DEVICE }]));
    expect([...exports.values()].map(({ sessionNumber }) => sessionNumber)).to.deep.equal([14, 25]);
    expect(latestText(text), "after a clean stop").to.equal(text);
  });

  it("are read as they were written", () => {
    expect(decode(encodeCache(full()))).to.deep.equal(full());
    expect(decode(encodeCache(emptyMemory(HOST)))).to.deep.equal(emptyMemory(HOST));
  });

  it("are refused when torn anywhere", () => {
    const text = encodeCache(full()).trimEnd();
    for (let length = 0; length < text.length; length += 1)
      expect(() => decode(text.slice(0, length)), `cut to ${length}`).to.throw();
  });

  const text = encodeCache(full());
  const rows: [string, string, RegExp][] = [
    ["another host's", encodeCache(emptyMemory("host-2" as HostId)), /belongs to host "host-2"/],
    ["another format", text.replace("agent-cache-3", "agent-cache-9"), /format/],
    ["no JSON", "hello", /JSON/],
    ["a list", "[]", /^cache: .*expected object/],
    ["a negative generation", text.replace('"tabletGeneration":4', '"tabletGeneration":-4'), /tabletGeneration/],
    ["former incarnations that are no list", text.replace('["parent"]', '"parent"'), /formerIncarnations/],
    ["a former incarnation that is no text", text.replace('["parent"]', "[7]"), /formerIncarnations/],
    ["an unknown kind", text.replace('"detach"', '"hold"'), /kind/],
    ["a device id that is a path", text.replace('"a":', '"../a":'), /malformed/],
    [
      "an error's time that is none",
      text.replace('"hardwareErrorAtMs":17', '"hardwareErrorAtMs":-17'),
      /hardwareErrorAtMs/,
    ],
    ["a limit that is none", text.replace('"readIops":1', '"readIops":-1'), /readIops|read_iops/],
    ["an unknown form of export", text.replace('"NBD"', '"SCSI"'), /exportKind/],
    ["a fraction as session", text.replace('"number":7', '"number":7.5'), /number/],
  ];
  for (const [title, torn, message] of rows)
    it(`are refused: ${title}`, () => {
      expect(torn).not.to.equal(text);
      expect(() => decode(torn)).to.throw(message);
    });
});
