import type { DeviceId, HostId } from "@diskmesh/domain";
import { expect } from "chai";
import type { ExportDevice } from "../model/memory.js";
import type { DiskPart } from "./disk-part.js";
import { SharedRuns } from "./shared-runs.js";

const KIB = 1_024;
const bytes = (deviceId: string, offsetBytes: number, skipBytes = 0): ExportDevice => ({
  deviceId: deviceId as DeviceId,
  hostId: "host-2" as HostId,
  sizeBytes: KIB,
  offsetBytes,
  ...(skipBytes > 0 && { skipBytes }),
  sessionNumber: 1,
  blockAddress: "",
  sessionKey: "",
});

describe("runs that parts of a disk share", () => {
  let did: string[];
  let runs: SharedRuns;

  beforeEach(() => {
    did = [];
    runs = new SharedRuns(({ deviceId, offsetBytes, skipBytes }) => {
      const name = `${deviceId}/${offsetBytes}`;
      did.push(`open ${name}${skipBytes === undefined ? "" : " in parts"}`);
      const noted = (what: string) => async (at: number) => void did.push(`${what} ${name} at ${at}`);
      return {
        read: noted("read"),
        write: noted("write"),
        clear: noted("clear"),
        flush: async () => void did.push(`flush ${name}`),
        close: () => void did.push(`close ${name}`),
      } as unknown as DiskPart;
    });
  });

  it("are opened once, at their start, and closed with the last of the parts", async () => {
    const [first, second] = [runs.open(bytes("a", 64)), runs.open(bytes("a", 64 + KIB, KIB))];
    await second.write(5, Buffer.alloc(1), false);
    await first.write(5, Buffer.alloc(1), false);
    first.close();
    first.close();
    expect(did).to.deep.equal(["open a/64", "write a/64 at 1029", "write a/64 at 5"]);
    second.close();
    runs.open(bytes("a", 64 + KIB, KIB));
    expect(did.slice(3)).to.deep.equal(["close a/64", "open a/64"]);
  });

  it("differ by device, start and session", () => {
    for (const one of [bytes("a", 64), bytes("b", 64), bytes("a", 64 + KIB), { ...bytes("a", 64), sessionNumber: 2 }])
      runs.open(one);
    expect(did).to.have.length(4);
  });
});
