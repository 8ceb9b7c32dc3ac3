import { expect } from "chai";
import { type DiscoveryRule, type FoundFile, type Known, planDevices } from "./discovery.js";

const GIB = 1024 ** 3;
const pool = (fields: object) => ({
  pool: "",
  minSizeBytes: 1,
  maxSizeBytes: Number.MAX_SAFE_INTEGER,
  blockSizeBytes: 4096,
  ...fields,
});
const rule = (fields: Partial<DiscoveryRule> = {}): DiscoveryRule => ({
  glob: "/dev/*",
  idPrefix: "h1",
  maxDevicesPerFile: 4,
  pools: [pool({})],
  ...fields,
});
const file = (path: string, sizeBytes: number, of = rule(), identity = path): FoundFile => ({
  path,
  rule: of,
  sizeBytes,
  identity,
});
const nothing: Known = { deviceIds: new Set(), files: new Map(), devicesLeft: 100 };
const sized = rule({
  pools: [
    pool({ pool: "small", maxSizeBytes: GIB }),
    pool({ pool: "cut", maxSizeBytes: 10 * GIB, deviceSizeBytes: 2 * GIB }),
  ],
});

const rows: [string, FoundFile[], Known, string[], string[]][] = [
  ["a file -> one device, all of it", [file("/dev/a", 5)], nothing, ["h1-a /dev/a 0+all "], []],
  ["characters that no id has -> replaced", [file("/dev/wwn.1:2", 5)], nothing, ["h1-wwn-1-2 /dev/wwn.1:2 0+all "], []],
  ["the first pool rule that the size fits", [file("/dev/a", GIB, sized)], nothing, ["h1-a /dev/a 0+all small"], []],
  [
    "a rule with a device size -> as many as the file holds",
    [file("/dev/a", 5 * GIB, sized)],
    nothing,
    [`h1-a-1 /dev/a 0+${2 * GIB} cut`, `h1-a-2 /dev/a ${2 * GIB}+${2 * GIB} cut`],
    [],
  ],
  [
    "more than a file may make -> so many",
    [file("/dev/a", 40, rule({ pools: [pool({ deviceSizeBytes: 1 })] }))],
    nothing,
    [0, 1, 2, 3].map((index) => `h1-a-${index + 1} /dev/a ${index}+1 `),
    [],
  ],
  ["a size that no rule takes -> skipped", [file("/dev/a", 11 * GIB, sized)], nothing, [], ["/dev/a no pool rule"]],
  [
    "less than one device -> skipped",
    [file("/dev/a", 3, rule({ pools: [pool({ deviceSizeBytes: 4 })] }))],
    nothing,
    [],
    ["/dev/a it holds 3 bytes"],
  ],
  [
    "two names of one file -> the first",
    [file("/dev/a", 5, rule(), "x"), file("/dev/b", 5, rule(), "x")],
    nothing,
    ["h1-a /dev/a 0+all "],
    ['/dev/b it is the same file as "/dev/a"'],
  ],
  [
    "a file that is listed under another name -> skipped; under this name -> nothing",
    [file("/dev/a", 5), file("/dev/b", 5)],
    {
      ...nothing,
      files: new Map([
        ["/dev/a", "/dev/listed"],
        ["/dev/b", "/dev/b"],
      ]),
    },
    [],
    ['/dev/a it is the same file as "/dev/listed"'],
  ],
  [
    "ids that are taken, by a known device or a found one -> skipped",
    [file("/dev/a", 5), file("/x/b", 5), file("/y/b", 5)],
    { ...nothing, deviceIds: new Set(["h1-a"]) },
    ["h1-b /x/b 0+all "],
    ["/dev/a another file already has its device id h1-a", "/y/b another file already has its device id h1-b"],
  ],
  [
    "an id that is too long -> skipped",
    [file(`/dev/${"a".repeat(70)}`, 5)],
    nothing,
    [],
    [`/dev/${"a".repeat(70)} its device id would be`],
  ],
  [
    "more devices than the agent may have -> the first ones",
    [file("/dev/a", 5), file("/dev/b", 5)],
    { ...nothing, devicesLeft: 1 },
    ["h1-a /dev/a 0+all "],
    ["/dev/b the agent already has the maximum number"],
  ],
];

describe("devices of found files", () => {
  for (const [cause, found, known, devices, skipped] of rows)
    it(cause, () => {
      const plan = planDevices(found, known);
      const text = plan.devices.map(
        (one) => `${one.deviceId} ${one.path} ${one.offsetBytes}+${one.sizeBytes ?? "all"} ${one.pool}`,
      );
      expect(text).to.deep.equal(devices);
      expect(plan.skipped.length).to.equal(skipped.length);
      for (const [index, text] of skipped.entries())
        expect(`${plan.skipped[index]?.path} ${plan.skipped[index]?.reason}`).to.contain(text);
    });

  it("come before refused files, which take no id and no room from them", () => {
    const found = [
      file("/dev/a\tb", 5),
      file("/dev/a-b", 5),
      file("/dev/c\nd", 5),
      file("/dev/big", 2 ** 53),
      file("/dev/e\n", 5),
    ];
    const plan = planDevices(found, { ...nothing, devicesLeft: 3 });
    expect(plan.devices.map(({ deviceId }) => deviceId)).to.deep.equal(["h1-a-b"]);
    expect(plan.refused.map(({ deviceId, path }) => [deviceId, path])).to.deep.equal([
      ["h1-c-d", "/dev/c\nd"],
      ["h1-big", "/dev/big"],
    ]);
    expect(plan.refused[0]?.reason).to.match(/control character: rename the file/);
    expect(plan.refused[1]?.reason).to.match(/has 9007199254740992 bytes/);
    expect(plan.skipped.map(({ path }) => path)).to.deep.equal(["/dev/a\tb", "/dev/e\n"]);
  });
});
