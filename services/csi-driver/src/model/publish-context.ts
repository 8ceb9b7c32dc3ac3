/** Key of the disk's CID in the publish context, which the controller gives to the node. */
export const DISK_CID = "diskCid";
/** Key of the ID of the disk's attachment in the director. */
export const ATTACHMENT_ID = "attachmentId";
/** Key whose value is "true" when the attachment is the disk's first, so that nobody wrote to the disk before. */
export const IS_FIRST_ATTACHMENT = "isFirstAttachment";
