import { expect } from "chai";
import * as z from "zod";
import { quickCheckOf } from "./quick-check.js";

const whole = z.int().min(0);
const inner = z.strictObject({ path: z.string(), sizeBytes: whole, note: z.string().optional() });
const shape = z.strictObject({
  text: z.string(),
  flag: z.boolean(),
  whole,
  number: z.number(),
  least: z.number().min(3),
  kind: z.enum(["a", "b"]),
  only: z.literal(true).optional(),
  nullable: z.number().nullable(),
  list: z.array(z.string()).readonly(),
  inner: inner.optional(),
  loose: z.looseObject({ type: z.enum(["x", "y"]) }),
  names: z.record(z.string(), z.string()),
  short: z.string().max(5),
  any: z.unknown(),
});

const right = {
  text: "",
  flag: false,
  whole: 0,
  number: -1.5,
  least: 3,
  kind: "a",
  only: true,
  nullable: null,
  list: ["one", "two"],
  inner: { path: "/dev/sda", sizeBytes: 1 },
  loose: { type: "x", more: [1] },
  names: { a: "b" },
  short: "12345",
  any: { deep: [null] },
};

const VALUES: readonly unknown[] = [
  undefined,
  null,
  true,
  false,
  "",
  "a",
  "b",
  "x",
  "longer than five",
  0,
  -0,
  -1,
  1.5,
  3,
  2.999,
  2 ** 53,
  2 ** 53 - 1,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  [],
  ["a"],
  ["a", 1],
  [undefined],
  {},
  { type: "x" },
  { type: "z" },
  { type: "y", type2: "z" },
  { a: 1 },
  { path: "/", sizeBytes: 1 },
  { path: "/", sizeBytes: 1, note: undefined },
  { path: "/", sizeBytes: 1, note: 1 },
  { path: "/", sizeBytes: 1, other: 1 },
  { path: "/", sizeBytes: -1 },
  { path: "/" },
  new Map(),
];

describe("the quick check of a shape", () => {
  const takes = quickCheckOf(shape);

  function compare(value: unknown): boolean {
    const byZod = shape.safeParse(value).success;
    expect(takes(value), JSON.stringify(value)).to.equal(byZod);
    return byZod;
  }

  it("accepts and refuses the same as zod, with any value in any field", () => {
    expect(compare(right)).to.equal(true);
    const verdicts = Object.keys(right).flatMap((name) => VALUES.map((value) => compare({ ...right, [name]: value })));
    expect(verdicts.filter((isTaken) => isTaken).length).to.be.above(Object.keys(right).length);
    expect(verdicts.filter((isTaken) => !isTaken).length).to.be.above(Object.keys(right).length);
  });

  it("agrees with zod on missing fields, extra fields, and fields with odd names", () => {
    for (const name of Object.keys(right)) {
      const { [name as keyof typeof right]: _, ...rest } = right;
      compare(rest);
    }
    for (const name of ["more", "toString", "constructor"]) expect(compare({ ...right, [name]: 1 })).to.equal(false);
    expect(compare(JSON.parse(JSON.stringify(right).replace("{", '{"__proto__":1,')))).to.equal(false);
    for (const value of VALUES) compare(value);
  });
});
