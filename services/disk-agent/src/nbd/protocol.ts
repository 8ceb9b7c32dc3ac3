/**
 * The NBD protocol's numbers and message layouts, as the NetworkBlockDevice specification gives them: fixed newstyle
 * negotiation and simple replies. All integers are big-endian.
 */
export const INIT_MAGIC = 0x4e42444d41474943n; // "NBDMAGIC"
export const OPTION_MAGIC = 0x49484156454f5054n; // "IHAVEOPT"
const OPTION_REPLY_MAGIC = 0x3e889045565a9n;
const REQUEST_MAGIC = 0x25609513;
const SIMPLE_REPLY_MAGIC = 0x67446698;

export const HANDSHAKE = { FIXED_NEWSTYLE: 1, NO_ZEROES: 2 } as const;

export const OPTION = { EXPORT_NAME: 1, ABORT: 2, LIST: 3, STARTTLS: 5, INFO: 6, GO: 7 } as const;

export const REPLY = {
  ACK: 1,
  SERVER: 2,
  INFO: 3,
  ERR_UNSUP: 0x80000001,
  ERR_INVALID: 0x80000003,
  ERR_TLS_REQD: 0x80000005,
  ERR_UNKNOWN: 0x80000006,
} as const;

export const INFO = { EXPORT: 0, DESCRIPTION: 2, BLOCK_SIZE: 3 } as const;

export const TRANSMISSION = {
  HAS_FLAGS: 1,
  READ_ONLY: 2,
  SEND_FLUSH: 4,
  SEND_FUA: 8,
  SEND_TRIM: 32,
  SEND_WRITE_ZEROES: 64,
  CAN_MULTI_CONN: 256,
} as const;

export const COMMAND = { READ: 0, WRITE: 1, DISC: 2, FLUSH: 3, TRIM: 4, WRITE_ZEROES: 6 } as const;
export const COMMAND_FLAG = { FUA: 1, NO_HOLE: 2 } as const;

export const NBD_ERROR = { EPERM: 1, EIO: 5, EINVAL: 22, ENOSPC: 28, EOVERFLOW: 75, ESHUTDOWN: 108 } as const;

/** Maximum bytes of a read or write; equals the default maximum of clients. */
export const MAX_REQUEST_BYTES = 32 * 1024 * 1024;
/** Maximum bytes of a client's option: a name of 4096 bytes and some information requests. */
export const MAX_OPTION_BYTES = 8 * 1024;

export const REQUEST_BYTES = 28;
export const SIMPLE_REPLY_BYTES = 16;
export const OPTION_HEADER_BYTES = 16;
export const OPTION_REPLY_HEADER_BYTES = 20;

export interface NbdRequest {
  readonly flags: number;
  readonly command: number;
  /** Number that the client chooses, and that the reply repeats. */
  readonly cookie: bigint;
  readonly offsetBytes: bigint;
  readonly lengthBytes: number;
}

export function encodeGreeting(): Buffer {
  const greeting = Buffer.alloc(18);
  greeting.writeBigUInt64BE(INIT_MAGIC, 0);
  greeting.writeBigUInt64BE(OPTION_MAGIC, 8);
  greeting.writeUInt16BE(HANDSHAKE.FIXED_NEWSTYLE | HANDSHAKE.NO_ZEROES, 16);
  return greeting;
}

export function encodeOption(option: number, data: Buffer): Buffer {
  const header = Buffer.alloc(OPTION_HEADER_BYTES);
  header.writeBigUInt64BE(OPTION_MAGIC, 0);
  header.writeUInt32BE(option, 8);
  header.writeUInt32BE(data.length, 12);
  return Buffer.concat([header, data]);
}

export function decodeOptionHeader(header: Buffer): { option: number; lengthBytes: number } {
  if (header.readBigUInt64BE(0) !== OPTION_MAGIC) throw new Error("an option does not begin with its magic number");
  return { option: header.readUInt32BE(8), lengthBytes: header.readUInt32BE(12) };
}

export function encodeOptionReply(option: number, reply: number, data: Buffer = Buffer.alloc(0)): Buffer {
  const header = Buffer.alloc(OPTION_REPLY_HEADER_BYTES);
  header.writeBigUInt64BE(OPTION_REPLY_MAGIC, 0);
  header.writeUInt32BE(option, 8);
  header.writeUInt32BE(reply, 12);
  header.writeUInt32BE(data.length, 16);
  return Buffer.concat([header, data]);
}

export function decodeOptionReplyHeader(header: Buffer): { option: number; reply: number; lengthBytes: number } {
  if (header.readBigUInt64BE(0) !== OPTION_REPLY_MAGIC) throw new Error("a reply does not begin with its magic number");
  return { option: header.readUInt32BE(8), reply: header.readUInt32BE(12), lengthBytes: header.readUInt32BE(16) };
}

/** Encodes the data of INFO and GO: the export's name and the requested information. */
export function encodeInfoRequest(exportName: string, infos: readonly number[]): Buffer {
  const name = Buffer.from(exportName);
  const data = Buffer.alloc(4 + name.length + 2 + 2 * infos.length);
  data.writeUInt32BE(name.length, 0);
  name.copy(data, 4);
  data.writeUInt16BE(infos.length, 4 + name.length);
  infos.forEach((info, index) => {
    data.writeUInt16BE(info, 6 + name.length + 2 * index);
  });
  return data;
}

/** Decodes the data of INFO and GO; undefined when it is malformed. */
export function decodeInfoRequest(data: Buffer): { exportName: string; infos: number[] } | undefined {
  if (data.length < 6) return undefined;
  const nameLength = data.readUInt32BE(0);
  if (nameLength > data.length - 6) return undefined;
  const count = data.readUInt16BE(4 + nameLength);
  if (data.length !== 6 + nameLength + 2 * count) return undefined;
  const infos = Array.from({ length: count }, (_, index) => data.readUInt16BE(6 + nameLength + 2 * index));
  return { exportName: data.subarray(4, 4 + nameLength).toString(), infos };
}

export function encodeExportInfo(sizeBytes: number, transmissionFlags: number): Buffer {
  const data = Buffer.alloc(12);
  data.writeUInt16BE(INFO.EXPORT, 0);
  data.writeBigUInt64BE(BigInt(sizeBytes), 2);
  data.writeUInt16BE(transmissionFlags, 10);
  return data;
}

export function encodeDescriptionInfo(description: string): Buffer {
  const type = Buffer.alloc(2);
  type.writeUInt16BE(INFO.DESCRIPTION, 0);
  return Buffer.concat([type, Buffer.from(description)]);
}

export function encodeBlockSizeInfo(minimum: number, preferred: number, maximum: number): Buffer {
  const data = Buffer.alloc(14);
  data.writeUInt16BE(INFO.BLOCK_SIZE, 0);
  data.writeUInt32BE(minimum, 2);
  data.writeUInt32BE(preferred, 6);
  data.writeUInt32BE(maximum, 10);
  return data;
}

export function encodeRequest(request: NbdRequest): Buffer {
  const header = Buffer.alloc(REQUEST_BYTES);
  header.writeUInt32BE(REQUEST_MAGIC, 0);
  header.writeUInt16BE(request.flags, 4);
  header.writeUInt16BE(request.command, 6);
  header.writeBigUInt64BE(request.cookie, 8);
  header.writeBigUInt64BE(request.offsetBytes, 16);
  header.writeUInt32BE(request.lengthBytes, 24);
  return header;
}

export function decodeRequest(header: Buffer): NbdRequest {
  if (header.readUInt32BE(0) !== REQUEST_MAGIC) throw new Error("a request does not begin with its magic number");
  return {
    flags: header.readUInt16BE(4),
    command: header.readUInt16BE(6),
    cookie: header.readBigUInt64BE(8),
    offsetBytes: header.readBigUInt64BE(16),
    lengthBytes: header.readUInt32BE(24),
  };
}

export function encodeSimpleReply(cookie: bigint, error: number): Buffer {
  const header = Buffer.alloc(SIMPLE_REPLY_BYTES);
  header.writeUInt32BE(SIMPLE_REPLY_MAGIC, 0);
  header.writeUInt32BE(error, 4);
  header.writeBigUInt64BE(cookie, 8);
  return header;
}

export function decodeSimpleReply(header: Buffer): { cookie: bigint; error: number } {
  if (header.readUInt32BE(0) !== SIMPLE_REPLY_MAGIC) throw new Error("a reply does not begin with its magic number");
  return { error: header.readUInt32BE(4), cookie: header.readBigUInt64BE(8) };
}
