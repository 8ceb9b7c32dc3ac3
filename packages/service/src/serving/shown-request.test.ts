import { expect } from "chai";
import { shownRequest } from "./shown-request.js";

describe("the logged parts of a request", () => {
  const cases: readonly [cause: string, request: unknown, shown: object | undefined][] = [
    [
      "ids and names -> told",
      { hostId: "h1", diskName: "db", sizeBytes: 4096 },
      { hostId: "h1", diskName: "db", sizeBytes: 4096 },
    ],
    ["what keeps its default -> left out", { hostId: "", dryRun: false, pageSize: 0 }, undefined],
    [
      "contents -> not told",
      { type: "cloud", content: "password: x", manifest: "x", args: { a: "x" } },
      { type: "cloud" },
    ],
    ["keys -> not told", { diskId: "d", sessionKey: Buffer.alloc(32, 1) }, { diskId: "d" }],
    [
      "keys in parts of a list -> not told",
      { extents: [{ deviceId: "d1", sessionKey: Buffer.alloc(32, 1) }] },
      { extents: ["d1"] },
    ],
    ["maps that callers name -> not told", { metadata: { name: "x" }, env: { hostId: "x" } }, undefined],
    [
      "what is named in a part of it -> told",
      { selection: { deployment: "d", group: "" } },
      { selection: { deployment: "d" } },
    ],
    [
      "one of several targets -> which",
      { target: { target: { $case: "nodeId", value: "h1" } } },
      { target: { target: { nodeId: "h1" } } },
    ],
    [
      "many things -> the first of them",
      { deviceIds: Array.from({ length: 20 }, (_, i) => `d${i}`) },
      {
        deviceIds: [...Array.from({ length: 16 }, (_, i) => `d${i}`), "and 4 more"],
      },
    ],
    [
      "things that are messages -> their ids",
      { devices: [{ deviceId: "d1", key: "x" }], keys: ["x"] },
      { devices: ["d1"] },
    ],
    ["a long text -> its beginning", { reason: "x".repeat(1_000) }, { reason: `${"x".repeat(200)}...` }],
    ["no message -> nothing", undefined, undefined],
  ];
  for (const [cause, request, shown] of cases) it(cause, () => expect(shownRequest(request)).to.deep.equal(shown));
});
