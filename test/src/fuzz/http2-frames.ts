/** Encodes HTTP/2 frames by hand, including invalid ones that no library would write. */

export const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
export const TYPE = {
  DATA: 0,
  HEADERS: 1,
  PRIORITY: 2,
  RST_STREAM: 3,
  SETTINGS: 4,
  PUSH: 5,
  PING: 6,
  GOAWAY: 7,
  WINDOW: 8,
  CONTINUATION: 9,
};
export const END_STREAM = 1;
export const END_HEADERS = 4;

export const HEALTH_CHECK = "/grpc.health.v1.Health/Check";

/** Returns the headers that open a gRPC call. */
export function callHeaders(path: string, contentType = "application/grpc"): [string, string][] {
  return [
    [":method", "POST"],
    [":scheme", "https"],
    [":path", path],
    [":authority", "localhost"],
    ["content-type", contentType],
    ["te", "trailers"],
  ];
}

export function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream >>> 0, 5);
  return Buffer.concat([head, payload]);
}

/** Encodes an HPACK literal without indexing and Huffman coding. */
export function header(name: string, value: string): Buffer {
  return Buffer.concat([Buffer.from([0]), text(name), text(value)]);
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  if (bytes.length < 127) return Buffer.concat([Buffer.from([bytes.length]), bytes]);
  const rest = bytes.length - 127;
  const length = rest < 128 ? [127, rest] : [127, (rest & 0x7f) | 0x80, rest >> 7];
  return Buffer.concat([Buffer.from(length), bytes]);
}

export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value >>> 0);
  return bytes;
}
