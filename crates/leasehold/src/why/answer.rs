//! Follows a path as the server does, and checks the operation at its end.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use leasehold_doctor::below::{self, Begins};
use leasehold_fs::{Access, Attributes, Caller, FileType, FsError, ObjectId, Request};
use leasehold_fs::{ops, permission};

use super::list;
use crate::options::Operation;

/// The question of the user, with the export and the caller that it concerns.
pub(super) struct Asked<'a> {
    pub(super) request: Request<'a>,
    pub(super) operation: Operation,
    /// The path below the export.
    pub(super) below: &'a Path,
}

impl Asked<'_> {
    /// Returns true if the server would allow the operation; adds the reasons to `steps`.
    pub(super) async fn answer(&self, steps: &mut Vec<String>) -> bool {
        if self.request.read_only && self.operation.changes() {
            steps.push("the rule or the export is read-only".to_owned());
            return false;
        }
        let mut names: Vec<&[u8]> = self.below.iter().map(OsStrExt::as_bytes).collect();
        let last = if self.operation.is_about_name() { names.pop() } else { None };
        if self.operation.is_about_name() && last.is_none() {
            steps.push("the name of an export cannot be created or removed".to_owned());
            return false;
        }
        let mut object = self.request.export.store.root();
        let mut path = self.request.export.name.clone();
        let mut place = PathBuf::from(&self.request.export.path);
        for name in names {
            let is_placeholder = match ops::lookup(&self.request, &object, name).await {
                Ok(found) => {
                    object = found.object;
                    below::is_placeholder(&found.attributes)
                }
                Err(failed) => {
                    let name = name.escape_ascii();
                    steps.push(if failed.error == FsError::Access {
                        format!("the caller may not search {path} for {name}")
                    } else if failed.error == FsError::NotFound {
                        format!("{path} contains no {name}")
                    } else {
                        format!("{path} cannot be searched for {name}: {}", failed.error)
                    });
                    self.describe(&path, &object, steps).await;
                    return false;
                }
            };
            let above = place.clone();
            place.push(OsStr::from_bytes(name));
            path = format!("{path}/{}", name.escape_ascii());
            if let Some(begins) = below::between(&above, &place) {
                steps.push(format!("{path}: {}", begins.words(!is_placeholder)));
            }
        }
        self.at(&path, &object, last, steps).await
    }

    async fn at(
        &self,
        path: &str,
        object: &ObjectId,
        last: Option<&[u8]>,
        steps: &mut Vec<String>,
    ) -> bool {
        let wanted = self.wanted();
        let (granted, attributes) = match ops::access(&self.request, object, wanted).await {
            Ok(answer) => answer,
            Err(failed) => {
                steps.push(format!("{path}: {}", failed.error));
                return false;
            }
        };
        self.describe(path, object, steps).await;
        let is_directory = attributes.file_type == FileType::Directory;
        let fits = match self.operation {
            Operation::Create | Operation::List | Operation::Lookup => is_directory,
            Operation::Mount | Operation::Remove => is_directory,
            Operation::Execute | Operation::Read | Operation::Write => !is_directory,
        };
        if !fits {
            steps.push(match is_directory {
                true => format!("{path} is a directory: ask for list, create or remove"),
                false => format!("{path} is not a directory: ask for read, write or execute"),
            });
            return false;
        }
        if granted != wanted {
            steps.push(
                "these permissions are not sufficient: ACCESS denies the operation".to_owned(),
            );
            return false;
        }
        match last {
            Some(name) => self.name(path, (object, &attributes), name, steps).await,
            None => true,
        }
    }

    /// Checks the permissions for a name that the operation creates or removes.
    async fn name(
        &self,
        path: &str,
        (directory, attributes): (&ObjectId, &Attributes),
        name: &[u8],
        steps: &mut Vec<String>,
    ) -> bool {
        let (is_create, shown) = (self.operation == Operation::Create, name.escape_ascii());
        match ops::lookup(&self.request, directory, name).await {
            Err(failed) if failed.error == FsError::NotFound && is_create => true,
            Err(failed) => {
                steps.push(format!("{path}/{shown}: {}", failed.error));
                false
            }
            Ok(_) if is_create => {
                steps.push(format!("{path}/{shown} exists already"));
                false
            }
            Ok(_) if let Some(begins) = self.begins(path, name) => {
                steps.push(format!(
                    "{path}/{shown}: {}, and the name cannot be removed",
                    begins.thing()
                ));
                false
            }
            Ok(found) => {
                let caller = &self.request.caller;
                let is_kept = permission::sticky_forbids(attributes, &found.attributes, caller);
                if is_kept {
                    let text = "is sticky: only owners may remove names from it";
                    steps.push(format!("{path} {text}"));
                }
                !is_kept
            }
        }
    }

    /// Returns the permissions that the operation requests from ACCESS.
    fn wanted(&self) -> Access {
        let none = Access {
            read: false,
            lookup: false,
            modify: false,
            extend: false,
            delete: false,
            execute: false,
        };
        match self.operation {
            Operation::Create => Access { modify: true, extend: true, ..none },
            Operation::Execute => Access { execute: true, ..none },
            Operation::List | Operation::Read => Access { read: true, ..none },
            Operation::Lookup => Access { lookup: true, ..none },
            Operation::Mount => none,
            Operation::Remove => Access { modify: true, delete: true, ..none },
            Operation::Write => Access { modify: true, ..none },
        }
    }

    /// Adds a step with the owner and mode of an object, and the permission bits that apply to the
    /// caller.
    async fn describe(&self, path: &str, object: &ObjectId, steps: &mut Vec<String>) {
        let Ok(attributes) = ops::getattr(&self.request, object).await else { return };
        let Attributes { uid, gid, mode, .. } = attributes;
        let bits = mode.bits() & 0o7777;
        let class = class(&attributes, &self.request.caller);
        let mut step = format!("{path} has mode {bits:04o}, user {uid} group {gid}: {class}");
        let caller = &self.request.caller;
        if caller.uid != uid
            && caller.uid != leasehold_fs::SUPERUSER
            && let Some(says) =
                list::of(&self.place(path)).and_then(|all| list::says(&all, gid, caller))
        {
            step = format!("{path} has mode {bits:04o}, user {uid} group {gid}: {says}");
        }
        steps.push(step);
    }

    /// Returns the file system that begins at a name in a directory, if another file system begins
    /// there.
    fn begins(&self, path: &str, name: &[u8]) -> Option<Begins> {
        let above = self.place(path);
        below::between(&above, &above.join(OsStr::from_bytes(name)))
    }

    /// Returns the path on this machine of a path in the export.
    fn place(&self, path: &str) -> PathBuf {
        let below = path.strip_prefix(&self.request.export.name).unwrap_or_default();
        format!("{}{below}", self.request.export.path).into()
    }
}

/// Describes the permission bits that apply to the caller.
fn class(attributes: &Attributes, caller: &Caller) -> String {
    let mode = attributes.mode.bits();
    let bits = |shift: u32| {
        let bits = mode >> shift;
        let letter = |bit, letter| if bits & bit == 0 { '-' } else { letter };
        [letter(4, 'r'), letter(2, 'w'), letter(1, 'x')].iter().collect::<String>()
    };
    if caller.uid == leasehold_fs::SUPERUSER {
        "root has all permissions".to_owned()
    } else if caller.uid == attributes.uid {
        format!("the owner's bits are {}", bits(6))
    } else if caller.in_group(attributes.gid) {
        format!("the bits of group {} are {}", attributes.gid, bits(3))
    } else {
        format!("the bits of others are {}", bits(0))
    }
}
