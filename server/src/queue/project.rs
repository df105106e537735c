//! The owner's projects. Making one twice makes it once; deleting one withdraws what it holds.
use domain::{OwnerId, ProjectId, Timestamp, text::PROJECT_NOT_FOUND, wire::relay::Project};

use super::{
    Queue,
    arrows::{self, Withdrawn},
    lock_owner,
    owner::check_name,
};
use crate::{
    ports::bytes,
    store::{Collides, Row, StoreError, Tx, params, quoted},
};

/// Projects one owner may have.
const PROJECTS_MAX: i64 = 200;

#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    #[error("{PROJECT_NOT_FOUND}")]
    NotFound,
    #[error("{0}")]
    BadName(String),
    #[error("another project has this name already")]
    NameTaken,
    #[error("an owner may have at most {PROJECTS_MAX} projects")]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Collides for ProjectError {
    fn store_error(&self) -> Option<&StoreError> {
        if let Self::Store(e) = self { Some(e) } else { None }
    }
}

struct Change {
    owner: OwnerId,
    project: ProjectId,
    name: String,
    now: Timestamp,
}

impl Queue {
    pub async fn projects(&self, owner: OwnerId) -> Result<Vec<Project>, ProjectError> {
        self.store.read(&owner, |tx, owner| Box::pin(list(tx, *owner))).await
    }

    /// A second request with the same name answers with the same project, so a lost answer makes no twin.
    pub async fn create_project(&self, owner: OwnerId, name: String) -> Result<Project, ProjectError> {
        check_name("name", &name).map_err(ProjectError::BadName)?;
        let change = Change { owner, project: ProjectId::from_random(bytes(&*self.random)), name, now: self.now() };
        self.store.write(change, |tx, it| Box::pin(create(tx, it))).await
    }

    pub async fn rename_project(&self, owner: OwnerId, project: ProjectId, name: String) -> Result<Project, ProjectError> {
        check_name("name", &name).map_err(ProjectError::BadName)?;
        let change = Change { owner, project, name, now: self.now() };
        self.store.write(change, |tx, it| Box::pin(rename(tx, it))).await
    }

    pub async fn delete_project(&self, owner: OwnerId, project: ProjectId) -> Result<(), ProjectError> {
        let change = Change { owner, project, name: String::new(), now: self.now() };
        self.store.write(change, |tx, it| Box::pin(delete(tx, it))).await
    }
}

fn read(row: &Row) -> Result<Project, StoreError> {
    Ok(Project { project_id: row.id(0)?, name: row.quoted(1)? })
}

async fn list(tx: &mut Tx, owner: OwnerId) -> Result<Vec<Project>, ProjectError> {
    let sql = "SELECT project_id, name_json FROM projects WHERE owner_id = $1 AND deleted_at IS NULL ORDER BY created_at, project_id";
    Ok(tx.query(sql, params![owner]).await?.iter().map(read).collect::<Result<_, _>>()?)
}

async fn named(tx: &mut Tx, it: &Change) -> Result<Option<Project>, StoreError> {
    let sql = "SELECT project_id, name_json FROM projects WHERE owner_id = $1 AND name_json = $2 AND deleted_at IS NULL";
    tx.row(sql, params![it.owner, quoted(&it.name)]).await?.as_ref().map(read).transpose()
}

async fn create(tx: &mut Tx, it: &Change) -> Result<Project, ProjectError> {
    lock_owner(tx, it.owner).await?;
    if let Some(project) = named(tx, it).await? {
        return Ok(project);
    }
    let row = tx.row("SELECT count(*) FROM projects WHERE owner_id = $1 AND deleted_at IS NULL", params![it.owner]).await?;
    if row.map_or(Ok(0), |row| row.int(0))? >= PROJECTS_MAX {
        return Err(ProjectError::TooMany);
    }
    let sql = "INSERT INTO projects (project_id, owner_id, name_json, created_at) VALUES ($1, $2, $3, $4)";
    tx.execute(sql, params![it.project, it.owner, quoted(&it.name), it.now]).await?;
    Ok(Project { project_id: it.project, name: it.name.clone() })
}

async fn rename(tx: &mut Tx, it: &Change) -> Result<Project, ProjectError> {
    lock_owner(tx, it.owner).await?;
    if named(tx, it).await?.is_some_and(|other| other.project_id != it.project) {
        return Err(ProjectError::NameTaken);
    }
    let sql = "UPDATE projects SET name_json = $3 WHERE project_id = $1 AND owner_id = $2 AND deleted_at IS NULL";
    if tx.execute(sql, params![it.project, it.owner, quoted(&it.name)]).await? == 0 {
        return Err(ProjectError::NotFound);
    }
    Ok(Project { project_id: it.project, name: it.name.clone() })
}

/// Queued commands end as not_shared, running ones are asked to stop; what has finished stays readable to whoever started it.
async fn delete(tx: &mut Tx, it: &Change) -> Result<(), ProjectError> {
    lock_owner(tx, it.owner).await?;
    let sql = "UPDATE projects SET deleted_at = coalesce(deleted_at, $3) WHERE project_id = $1 AND owner_id = $2";
    if tx.execute(sql, params![it.project, it.owner, it.now]).await? == 0 {
        return Err(ProjectError::NotFound);
    }
    for table in ["shared_sessions", "shares"] {
        tx.execute(&format!("DELETE FROM {table} WHERE project_id = $1"), params![it.project]).await?;
    }
    arrows::withdraw(tx, Withdrawn::ProjectDeleted(it.project), it.now).await?;
    Ok(())
}
