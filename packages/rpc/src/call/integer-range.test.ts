import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { ListLocksResponse, Lock, WatchTaskResponse } from "@diskmesh/api/director";
import { CreateDiskRequest } from "@diskmesh/api/registry";
import { InvalidArgumentError } from "@diskmesh/domain";
import { expect } from "chai";
import { decodeRequest } from "./integer-range.js";

const LENGTH_DELIMITED = 2;
const TOO_LARGE = 2n ** 53n;

/** Encodes an integer field nested in messages; `within` lists the field numbers, the innermost last. */
function encoded(within: readonly number[], ...values: readonly bigint[]): Uint8Array {
  const [number = 0, ...inner] = within;
  const writer = new BinaryWriter();
  if (inner.length > 0)
    return writer
      .uint32(number * 8 + LENGTH_DELIMITED)
      .bytes(encoded(inner, ...values))
      .finish();
  for (const value of values) writer.uint32(number * 8).int64(value);
  return writer.finish();
}

describe("an integer of 64 bits in a request", () => {
  it("decodes up to 2^53 - 1", () => {
    expect(decodeRequest(CreateDiskRequest, encoded([2], TOO_LARGE - 1n))).to.include({ sizeBytes: 2 ** 53 - 1 });
  });

  const REFUSED: readonly [string, Parameters<typeof decodeRequest>[0], Uint8Array][] = [
    ["size_bytes", CreateDiskRequest, encoded([2], TOO_LARGE)],
    ["size_bytes", CreateDiskRequest, encoded([2], -TOO_LARGE)],
    ["event.index", WatchTaskResponse, encoded([1, 1], TOO_LARGE)],
    ["locks[0].waiting_task_ids[1]", ListLocksResponse, encoded([1, 5], 1n, TOO_LARGE)],
    ["expire_time", Lock, encoded([4, 1], TOO_LARGE)],
  ];
  for (const [field, type, bytes] of REFUSED)
    it(`is refused beyond it, by the name of its field: ${field}`, () => {
      expect(() => decodeRequest(type, bytes))
        .to.throw(InvalidArgumentError, /^\S+ is -?9007199254740992: it must be between/)
        .with.deep.property("about", { field });
    });

  it("leaves the error of bytes that are no message alone", () => {
    expect(() => decodeRequest(CreateDiskRequest, Uint8Array.of(0x0a, 0x7f, 0x01))).to.throw(RangeError);
  });
});
