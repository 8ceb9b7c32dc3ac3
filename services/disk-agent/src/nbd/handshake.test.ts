import type { Socket } from "node:net";
import { PassThrough, Writable } from "node:stream";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { ByteReader, ConnectionEndedError } from "./byte-reader.js";
import { greetClient, negotiate } from "./handshake.js";
import { encodeOption, OPTION } from "./protocol.js";

describe("the NBD negotiation", () => {
  it("holds the replies of one option while a client sends options faster than it reads", async () => {
    const received = new PassThrough();
    const flags = Buffer.from([0, 0, 0, 1]);
    const list = encodeOption(OPTION.LIST, Buffer.alloc(0));
    received.end(Buffer.concat([flags, ...Array<Buffer>(1_000).fill(list)]));
    const heldBytes: number[] = [];
    const sent = new Writable({
      write(_chunk: Buffer, _encoding, done) {
        heldBytes.push(sent.writableLength);
        setImmediate(done);
      },
    });
    const served = { name: "disk-1", sizeBytes: 4096, blockSizeBytes: 4096 };
    const reader = new ByteReader(received as unknown as Socket);
    const greeting = await greetClient(reader, sent);
    const error = await rejection(negotiate(reader, sent, served, greeting));
    expect(error).to.be.instanceOf(ConnectionEndedError);
    expect(Math.max(sent.writableLength, ...heldBytes)).to.be.below(1_000);
    expect(heldBytes, "the greeting, and the replies to each option").to.have.length(1_001);
  });
});
