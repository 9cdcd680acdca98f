//! The numbers of operations.

named! {
    /// The operations of minor versions 1 and 2, with those for extended attributes, and the
    /// operations that only minor version 0 has (RFC 8881 18, RFC 7862 15, RFC 8276 8.4).
    #[doc(alias = "nfs_opnum4")]
    Operation {
        /// Returns the caller's permissions for an object.
        Access "ACCESS" = 3,
        /// Closes a file.
        Close "CLOSE" = 4,
        /// Makes written data stable.
        Commit "COMMIT" = 5,
        /// Makes an object other than a regular file.
        Create "CREATE" = 6,
        /// Abandons delegations from before a restart of the client.
        DelegationPurge "DELEGPURGE" = 7,
        /// Returns a delegation.
        DelegationReturn "DELEGRETURN" = 8,
        /// Returns attributes.
        GetAttributes "GETATTR" = 9,
        /// Returns the current file handle.
        GetHandle "GETFH" = 10,
        /// Adds a name to an object.
        Link "LINK" = 11,
        /// Locks a range of a file.
        Lock "LOCK" = 12,
        /// Tests for a conflicting lock.
        LockTest "LOCKT" = 13,
        /// Unlocks a range of a file.
        Unlock "LOCKU" = 14,
        /// Changes the current file handle to a named object.
        Lookup "LOOKUP" = 15,
        /// Changes the current file handle to the parent directory.
        LookupParent "LOOKUPP" = 16,
        /// Ends the compound if attributes are equal.
        NotVerify "NVERIFY" = 17,
        /// Opens a file, and makes it if required.
        Open "OPEN" = 18,
        /// Changes the current file handle to the named attributes.
        OpenAttributes "OPENATTR" = 19,
        /// Minor version 0 only.
        OpenConfirm "OPEN_CONFIRM" = 20,
        /// Reduces the access of an open.
        OpenDowngrade "OPEN_DOWNGRADE" = 21,
        /// Sets the current file handle.
        PutHandle "PUTFH" = 22,
        /// Sets the current file handle to the public one.
        PutPublicHandle "PUTPUBFH" = 23,
        /// Sets the current file handle to the root of the server.
        PutRootHandle "PUTROOTFH" = 24,
        /// Returns data of a file.
        Read "READ" = 25,
        /// Returns names and attributes in a directory.
        ReadDirectory "READDIR" = 26,
        /// Returns the target of a symbolic link.
        ReadLink "READLINK" = 27,
        /// Removes a name.
        Remove "REMOVE" = 28,
        /// Changes a name.
        Rename "RENAME" = 29,
        /// Minor version 0 only.
        Renew "RENEW" = 30,
        /// Restores the saved file handle.
        RestoreHandle "RESTOREFH" = 31,
        /// Saves the current file handle.
        SaveHandle "SAVEFH" = 32,
        /// Returns the security flavours for a name.
        SecurityInfo "SECINFO" = 33,
        /// Changes attributes.
        SetAttributes "SETATTR" = 34,
        /// Minor version 0 only.
        SetClientId "SETCLIENTID" = 35,
        /// Minor version 0 only.
        SetClientIdConfirm "SETCLIENTID_CONFIRM" = 36,
        /// Ends the compound if attributes differ.
        Verify "VERIFY" = 37,
        /// Writes data to a file.
        Write "WRITE" = 38,
        /// Minor version 0 only.
        ReleaseLockOwner "RELEASE_LOCKOWNER" = 39,
        /// Changes the parameters of callbacks.
        BackChannelControl "BACKCHANNEL_CTL" = 40,
        /// Binds the connection to a session.
        BindConnection "BIND_CONN_TO_SESSION" = 41,
        /// Introduces a client.
        ExchangeId "EXCHANGE_ID" = 42,
        /// Makes a session, and confirms a client id.
        CreateSession "CREATE_SESSION" = 43,
        /// Ends a session.
        DestroySession "DESTROY_SESSION" = 44,
        /// Frees a state id without locks.
        FreeStateid "FREE_STATEID" = 45,
        /// Requests the delegation of a directory.
        GetDirectoryDelegation "GET_DIR_DELEGATION" = 46,
        /// Returns the address of a device of layouts.
        GetDeviceInfo "GETDEVICEINFO" = 47,
        /// Returns all devices; minor version 1 only.
        GetDeviceList "GETDEVICELIST" = 48,
        /// Makes changes under a layout visible.
        LayoutCommit "LAYOUTCOMMIT" = 49,
        /// Requests a layout.
        LayoutGet "LAYOUTGET" = 50,
        /// Returns layouts.
        LayoutReturn "LAYOUTRETURN" = 51,
        /// Returns the security flavours for an object or its parent.
        SecurityInfoNoName "SECINFO_NO_NAME" = 52,
        /// Begins each compound of a session.
        Sequence "SEQUENCE" = 53,
        /// Changes the secret of a client.
        SetSsv "SET_SSV" = 54,
        /// Tests whether state ids are valid.
        TestStateid "TEST_STATEID" = 55,
        /// Requests a delegation without an open.
        WantDelegation "WANT_DELEGATION" = 56,
        /// Ends a client id.
        DestroyClientId "DESTROY_CLIENTID" = 57,
        /// Ends the reclaims of a client.
        ReclaimComplete "RECLAIM_COMPLETE" = 58,
        /// Reserves space for a range.
        Allocate "ALLOCATE" = 59,
        /// Copies a range between files.
        Copy "COPY" = 60,
        /// Permits another server to copy a file.
        CopyNotify "COPY_NOTIFY" = 61,
        /// Makes a hole in a file.
        Deallocate "DEALLOCATE" = 62,
        /// Announces the pattern of access.
        IoAdvise "IO_ADVISE" = 63,
        /// Reports errors of devices.
        LayoutError "LAYOUTERROR" = 64,
        /// Reports statistics of devices.
        LayoutStats "LAYOUTSTATS" = 65,
        /// Cancels a copy.
        OffloadCancel "OFFLOAD_CANCEL" = 66,
        /// Returns the progress of a copy.
        OffloadStatus "OFFLOAD_STATUS" = 67,
        /// Returns data and holes of a file.
        ReadPlus "READ_PLUS" = 68,
        /// Returns the next data or hole.
        Seek "SEEK" = 69,
        /// Writes a repeated pattern.
        WriteSame "WRITE_SAME" = 70,
        /// Shares a range between files.
        Clone "CLONE" = 71,
        /// Returns an extended attribute.
        GetXattr "GETXATTR" = 72,
        /// Sets an extended attribute.
        SetXattr "SETXATTR" = 73,
        /// Returns the names of extended attributes.
        ListXattrs "LISTXATTRS" = 74,
        /// Removes an extended attribute.
        RemoveXattr "REMOVEXATTR" = 75,
    }
}

words! {
    /// The number of an operation in a message, which need not be a known number.
    Number;
}

impl Number {
    /// The number in the result of an operation that the minor version does not have (RFC 8881
    /// 18.52).
    #[doc(alias = "OP_ILLEGAL")]
    pub const ILLEGAL: Self = Self(10_044);

    /// Returns the operation of COMPOUND with this number.
    #[must_use]
    pub const fn operation(self) -> Option<Operation> {
        Operation::of_number(self.0)
    }
}

impl From<Operation> for Number {
    fn from(operation: Operation) -> Self {
        Self(operation as u32)
    }
}

impl From<Operation> for u32 {
    fn from(operation: Operation) -> Self {
        operation as Self
    }
}

impl Operation {
    /// Returns the first minor version with the operation.
    #[must_use]
    pub const fn minor_version(self) -> u32 {
        match self as u32 {
            ..40 => 0,
            40..59 => 1,
            _ => 2,
        }
    }

    /// Returns true if only minor version 0 has the operation (RFC 8881 17): other versions answer
    /// NOTSUPP.
    #[must_use]
    pub const fn is_obsolete(self) -> bool {
        matches!(
            self,
            Self::OpenConfirm
                | Self::Renew
                | Self::SetClientId
                | Self::SetClientIdConfirm
                | Self::ReleaseLockOwner
        )
    }
}
