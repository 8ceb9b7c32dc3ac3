import { expect } from "chai";
import {
  copiedBytesOf,
  copiesStatusOf,
  type MoveStage,
  movingBytesOf,
  NOTHING_COPIED,
  nextStage,
  tableAt,
} from "./moving-bytes.js";

const MIB = 1024 * 1024;
const SIZE = 10 * MIB;
const bytes = {
  source: { on: "254:1", offsetBytes: MIB, sizeBytes: SIZE },
  target: { on: "259:2", offsetBytes: 0, sizeBytes: SIZE },
};
const LEGS = (start: number) => `2 254:1 ${2048 + start} 259:2 ${start} 1 handle_errors`;
const stage = (copied: number, window: number): MoveStage => ({ copiedBytes: copied * MIB, windowBytes: window * MIB });

describe("the table of a part that moves", () => {
  for (const [what, at, table] of [
    ["nothing is copied", NOTHING_COPIED, "0 20480 linear 254:1 2048"],
    [
      "the first window is copied",
      stage(0, 4),
      `0 8192 mirror core 2 8192 sync ${LEGS(0)}\n8192 12288 linear 254:1 10240`,
    ],
    [
      "a later window is copied",
      stage(3, 2),
      [
        `0 6144 mirror core 2 4096 nosync ${LEGS(0)}`,
        `6144 4096 mirror core 2 4096 sync ${LEGS(6144)}`,
        "10240 10240 linear 254:1 12288",
      ].join("\n"),
    ],
    [
      "the last window is copied",
      stage(9, 1),
      `0 18432 mirror core 2 8192 nosync ${LEGS(0)}\n18432 2048 mirror core 2 2048 sync ${LEGS(18432)}`,
    ],
    ["all is copied", stage(10, 0), `0 20480 mirror core 2 8192 nosync ${LEGS(0)}`],
  ] as const)
    it(`is that of both copies where ${what}, and says so`, () => {
      expect(tableAt(bytes, at)).to.equal(table);
      expect(movingBytesOf(table)).to.deep.equal(at === NOTHING_COPIED ? undefined : { bytes, stage: at });
    });

  for (const table of [
    "",
    "0 8 error",
    "0 8192 mirror core 1 8192 2 254:1 0 259:2 0 1 handle_errors",
    `0 8192 mirror core 2 1024 sync ${LEGS(0)}`,
    "0 8192 mirror core 2 8192 sync 3 254:1 0 259:2 0 259:3 0 1 handle_errors",
    "0 8192 mirror core 2 8192 sync 2 254:1 0 259:2 0",
  ])
    it(`of another form, such as ${JSON.stringify(table)}, is no move's`, () => {
      expect(movingBytesOf(table)).to.equal(undefined);
    });
});

describe("what the kernel says of the copies of a part", () => {
  const line = (start: number, alike: string, letters: string) =>
    `${start} 8192 mirror 2 254:1 259:2 ${alike} 1 ${letters} 1 core \n`;
  const rest = "16384 4096 linear \n";
  for (const [what, output, at, expected] of [
    [
      "both work",
      line(0, "8/8", "AA") + line(8192, "3/8", "AA") + rest,
      stage(4, 4),
      { alike: 3, regions: 8, failed: undefined, why: "" },
    ],
    [
      "a write failed where bytes are copied already",
      line(0, "7/8", "AD") + line(8192, "8/8", "AA") + rest,
      stage(4, 4),
      { alike: 8, regions: 8, failed: "target", why: "the kernel says that a write of the target failed" },
    ],
    [
      "a copy failed",
      line(0, "0/8", "AS"),
      stage(0, 4),
      { alike: 0, regions: 8, failed: "target", why: "the kernel says that a copy of the target failed" },
    ],
    [
      "the source could not be read",
      line(0, "8/8", "RA"),
      stage(4, 0),
      { alike: 0, regions: 0, failed: "source", why: "the kernel says that a read of the source failed" },
    ],
    [
      "both have failed",
      line(0, "8/8", "DF"),
      stage(4, 0),
      { alike: 0, regions: 0, failed: "source", why: "the kernel says that a write of the source failed" },
    ],
    ["nothing is copied", "0 20480 linear \n", NOTHING_COPIED, { alike: 0, regions: 0, failed: undefined, why: "" }],
  ] as const)
    it(`is understood where ${what}`, () => {
      expect(copiesStatusOf(output, at)).to.deep.equal(expected);
    });

  it("tells how many bytes are copied", () => {
    expect(copiedBytesOf(stage(4, 4), { alike: 3, regions: 8, failed: undefined })).to.equal(5.5 * MIB);
    expect(copiedBytesOf(stage(10, 0), { alike: 0, regions: 0, failed: undefined })).to.equal(SIZE);
  });
});

describe("the next window of a move", () => {
  const rules = { windowBytes: 4 * MIB, bytesPerSecond: 0, windowMs: 0 };
  const [busy, done] = [
    { alike: 3, regions: 8 },
    { alike: 8, regions: 8 },
  ];
  for (const [what, at, status, change, expected] of [
    ["begins at the first byte", NOTHING_COPIED, { alike: 0, regions: 0 }, {}, stage(0, 4)],
    ["waits for the present one", stage(0, 4), busy, {}, stage(0, 4)],
    ["takes all that is left where that is less than two", stage(0, 4), done, {}, stage(4, 6)],
    ["is none once all is copied", stage(4, 6), done, {}, stage(10, 0)],
    ["is none for ever then", stage(10, 0), { alike: 0, regions: 0 }, {}, stage(10, 0)],
    ["waits for the rate", stage(0, 4), done, { bytesPerSecond: MIB, windowMs: 3_999 }, stage(0, 4)],
    ["comes at the rate", stage(0, 4), done, { bytesPerSecond: MIB, windowMs: 4_000 }, stage(4, 6)],
    ["is whole at a rate, too", stage(4, 6), done, { bytesPerSecond: 1 }, stage(10, 0)],
    ["is smaller at a rate", NOTHING_COPIED, done, { windowBytes: SIZE, bytesPerSecond: MIB }, stage(0, 4)],
  ] as const)
    it(what, () => {
      expect(nextStage(bytes, at, status, { ...rules, ...change })).to.deep.equal(expected);
    });
});
